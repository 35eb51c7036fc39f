//! `requestState`: what the server tells itself through the client, sealed.
//!
//! The client may keep, lose or alter it. The seal is an HMAC with a key of this process, over
//! the state, the request that it belongs to and the time until which it is good.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// How long a person may take to answer.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Seals and opens states.
pub(super) struct Sealer {
    key: [u8; 32],
}

impl Sealer {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// A state that holds `answers` and is good for the request that `purpose` describes.
    pub(super) fn seal(&self, purpose: &str, answers: &Map<String, Value>) -> String {
        let until = now() + LIFETIME.as_secs();
        let body = json!({"until": until, "answers": answers}).to_string();
        let mac = self.mac(purpose, body.as_bytes());
        format!("v1.{}.{}", BASE64.encode(body), BASE64.encode(mac))
    }

    /// The answers in a state.
    ///
    /// # Errors
    /// Why the state is refused.
    pub(super) fn open(&self, purpose: &str, state: &str) -> Result<Map<String, Value>, String> {
        let altered = || "requestState is not one of this server for this request".to_owned();
        let (body, mac) = state
            .strip_prefix("v1.")
            .and_then(|rest| rest.split_once('.'))
            .ok_or_else(altered)?;
        let body = BASE64.decode(body).map_err(|_| altered())?;
        let mac = BASE64.decode(mac).map_err(|_| altered())?;
        if !equal(&mac, &self.mac(purpose, &body)) {
            return Err(altered());
        }
        let body: Value = serde_json::from_slice(&body).map_err(|_| altered())?;
        if body["until"].as_u64().is_none_or(|until| until < now()) {
            return Err("requestState is too old: send the request without it".to_owned());
        }
        Ok(body["answers"].as_object().cloned().unwrap_or_default())
    }

    /// HMAC-SHA-256 (RFC 2104) over purpose and body, each preceded by its length.
    fn mac(&self, purpose: &str, body: &[u8]) -> [u8; 32] {
        let pad = |byte: u8| {
            let mut block = [byte; 64];
            for (place, key) in block.iter_mut().zip(self.key) {
                *place ^= key;
            }
            block
        };
        let inner = Sha256::new()
            .chain_update(pad(0x36))
            .chain_update((purpose.len() as u64).to_be_bytes())
            .chain_update(purpose)
            .chain_update(body)
            .finalize();
        Sha256::new()
            .chain_update(pad(0x5c))
            .chain_update(inner)
            .finalize()
            .into()
    }
}

/// Equal, in a time that does not tell where they differ.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_opens_only_unaltered_and_for_its_request() {
        let sealer = Sealer::new([7; 32]);
        let answers = json!({"who": {"action": "accept"}});
        let answers = answers.as_object().unwrap();
        let state = sealer.seal("tools/call greet", answers);
        assert_eq!(
            sealer.open("tools/call greet", &state).as_ref(),
            Ok(answers)
        );

        assert!(sealer.open("tools/call other", &state).is_err());
        assert!(
            Sealer::new([8; 32])
                .open("tools/call greet", &state)
                .is_err()
        );
        for place in 0..state.len() {
            let mut altered = state.clone().into_bytes();
            altered[place] ^= 1;
            let altered = String::from_utf8(altered).unwrap();
            assert!(
                sealer.open("tools/call greet", &altered).is_err(),
                "{altered}"
            );
        }
    }
}
