use std::time::Duration;
use touchstone::run::*;
struct P;
impl Progress for P {
    fn step(&self, _: &str, _: usize, _: usize) {}
}
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let all = args[0] == "all";
    let cmd: Vec<String> = args[1..].to_vec();
    let o = Options {
        launch: touchstone::wire::Launch {
            program: cmd[0].clone().into(),
            args: cmd[1..].iter().map(Into::into).collect(),
            env: vec![],
            cwd: None,
            inherit_home: false,
        },
        command: cmd,
        limits: touchstone::wire::Limits {
            startup: Duration::from_secs(10),
            request: Duration::from_secs(5),
            quiet: Duration::from_millis(300),
            stop: Duration::from_secs(5),
        },
        total: None,
        revisions: None,
        profiles: ProfileChoice::Auto,
        only: vec![],
        skip: vec![],
        call: if all {
            CallPolicy::All
        } else {
            CallPolicy::ReadOnly
        },
        jobs: 2,
        cases: 16,
        seed: None,
        pack: None,
        hints: None,
    };
    let r = check(&o, &P);
    if let Some(f) = &r.fatal {
        println!("FATAL {} {:#?}", f.message, f.evidence);
    }
    for j in &r.judgements {
        use touchstone::verdict::Verdict::*;
        match j.verdict {
            Pass | NotApplicable => {
                for n in &j.notes {
                    println!("  note {} {:?} {}", j.requirement, j.revision, n);
                }
            }
            v => {
                println!(
                    "{v:?} {} {:?} [{}] {}",
                    j.requirement, j.revision, j.check, j.message
                );
                if v == Fail || v == Warn {
                    for l in &j.evidence.exchange {
                        println!(
                            "      {}ms {:?} {}",
                            l.at_ms,
                            l.from,
                            &l.text.chars().take(300).collect::<String>()
                        );
                    }
                }
            }
        }
    }
    let mut c = std::collections::BTreeMap::new();
    for j in &r.judgements {
        *c.entry(format!("{:?}", j.verdict)).or_insert(0) += 1;
    }
    println!(
        "{c:?} {:.2}s {} processes revs {:?} info {:?}",
        r.seconds, r.processes, r.target.revisions, r.target.server_info
    );
}
