//! Lines that no client may send: the server must be there for the next valid request. What it
//! says to the line itself is its own affair, as long as it says it in messages.

use super::super::Context;
use super::requests::known;
use super::stand::{Case, Heard, Stand, alive};
use crate::client::Client;
use crate::property;
use crate::property::wire;

use proptest::strategy::Strategy;

const SURVIVES: &str = "jsonrpc.parse-error.survive";

pub(super) fn broken_lines(ctx: &mut Context<'_>) {
    let plan = ctx.generated;
    let lines = wire::broken_line(&known(ctx)).prop_map(Broken).boxed();
    let mut runner = property::runner(plan.seed, "lines");
    let mut stand = Stand::new(plan, ctx.client.limits(), ctx.revision());
    stand.put_all(ctx, &mut runner, &lines, plan.cases);
}

#[derive(Debug, Clone)]
struct Broken(Vec<u8>);

impl Case for Broken {
    const OBSERVED: &'static [&'static str] =
        &["stdio.stdout-only-messages", "stdio.no-embedded-newlines"];

    fn put(&self, client: &mut Client) -> Heard {
        let mut line = self.0.clone();
        line.push(b'\n');
        client.send(&line);
        let mut heard = Heard {
            fault: alive(client, SURVIVES, "a line that is no message"),
            ..Heard::default()
        };
        match heard.fault {
            None => heard.holds.push(SURVIVES),
            Some(_) => heard.spent = true,
        }
        heard
    }
}
