//! `resources/*`.

use serde_json::Value;

use super::job::{Answer, Keep, Work};
use super::pages::{self, cursor};
use super::refusal::{Refusal, clip};
use super::request::Request;
use super::{Reply, Server, shape};

/// More than any client needs; a bound on what a session keeps.
const MAX_SUBSCRIBED: usize = 10_000;

/// The same for one subscription of the stateless protocol.
const MAX_LISTENED: usize = 1_000;

/// `resources/list`: a job, since a family may have to look first.
pub(super) fn list(server: &Server, request: &Request) -> Result<Reply, Refusal> {
    Ok(Reply::Job(Work::Resources {
        families: server.families.clone(),
        cursor: cursor(&request.params)?.map(str::to_owned),
        page_size: server.options.page_size,
    }))
}

/// `resources/templates/list`.
pub(super) fn templates(server: &Server, request: &Request) -> Result<Reply, Refusal> {
    let all = server.families.iter().flat_map(|f| f.resource_templates());
    let all = all.collect::<Vec<_>>();
    let list = &pages::TEMPLATES;
    let mut page = list.page(&all, cursor(&request.params)?, server.options.page_size)?;
    shape::list_items(&mut page, list.member, request.revision);
    Ok(Reply::Now(Answer::Cacheable(page, Keep::LONG)))
}

/// `resources/read`.
pub(super) fn read(server: &Server, request: &Request) -> Result<Reply, Refusal> {
    Ok(Reply::Job(Work::Read {
        families: server.families.clone(),
        uri: uri(request)?.to_owned(),
    }))
}

/// `resources/subscribe`. A resource need not be there yet to be watched.
pub(super) fn subscribe(server: &mut Server, request: &Request) -> Result<Reply, Refusal> {
    let uri = uri(request)?.to_owned();
    if let Some(session) = &mut server.session {
        if session.subscribed.len() >= MAX_SUBSCRIBED {
            return Err(Refusal::internal("Too many resources are subscribed to"));
        }
        session.subscribed.insert(uri);
    }
    Ok(Reply::empty())
}

/// `resources/unsubscribe`.
pub(super) fn unsubscribe(server: &mut Server, request: &Request) -> Result<Reply, Refusal> {
    let uri = uri(request)?;
    if let Some(session) = &mut server.session {
        session.subscribed.remove(uri);
    }
    Ok(Reply::empty())
}

fn uri(request: &Request) -> Result<&str, Refusal> {
    let uri = request.string("uri")?;
    match is_uri(uri) {
        true => Ok(uri),
        false => Err(Refusal::invalid_params(format!(
            "Not a URI: {:?}",
            clip(uri, 80)
        ))),
    }
}

/// Longer URIs are refused: sessions and subscriptions keep what they are given.
const MAX_URI: usize = 8 << 10;

/// Whether the text is an absolute URI by RFC 3986, of a sane length: a scheme, legal
/// characters, whole escapes.
pub(crate) fn is_uri(text: &str) -> bool {
    if text.len() > MAX_URI {
        return false;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let scheme_char = |c: u8| c.is_ascii_alphanumeric() || b"+-.".contains(&c);
    let uri_char = |c: u8| c.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&c);
    let escapes = rest.split('%').skip(1);
    let whole = |escape: &str| {
        let digits = escape.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(scheme_char)
        && !rest.is_empty()
        && rest.bytes().all(uri_char)
        && escapes.into_iter().all(whole)
}

/// The URIs of a subscription, at most [`MAX_LISTENED`].
pub(super) fn uris(value: &Value) -> Result<Vec<String>, Refusal> {
    let listed = value.as_array().filter(|uris| uris.len() <= MAX_LISTENED);
    let uris = listed.and_then(|uris| {
        let uri = |uri: &Value| Some(uri.as_str().filter(|uri| is_uri(uri))?.to_owned());
        uris.iter().map(uri).collect::<Option<Vec<_>>>()
    });
    uris.ok_or_else(|| {
        Refusal::invalid_params(format!(
            "\"resourceSubscriptions\" must be a list of URIs, at most {MAX_LISTENED}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::is_uri;

    #[test]
    fn a_uri_has_a_scheme_and_legal_characters() {
        for good in [
            "cja-skill://list",
            "file:///a%20b",
            "a:b",
            "x-y+z.1://h/p?q=[1]#f",
        ] {
            assert!(is_uri(good), "{good}");
        }
        for bad in [
            "",
            "not a uri",
            "relative/path",
            ":x",
            "1a:b",
            "a:",
            "a:b c",
            "a:%zz",
            "a:%2",
            "a:é",
            &format!("a:{}", "b".repeat(9000)),
        ] {
            assert!(!is_uri(bad), "{bad}");
        }
    }
}
