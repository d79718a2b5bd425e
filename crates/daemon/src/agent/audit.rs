//! `caravan tunnel-agent audit`: goes through the chain of a log.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use engine::agent::Digest;
use engine::agent::audit::Role;
use engine::agent::chain::{Broken, Head, Whole, verify};
use engine::agent::identity::Fingerprint;

use super::log::{LEN_MAX, name_of};
use crate::config::wireless::octets_of;
use crate::files;

/// Options of `caravan tunnel-agent audit`.
#[derive(Clone, Debug, clap::Args)]
pub struct AuditArgs {
    /// The log
    file: PathBuf,
    /// An end that was noted before, as this command prints it: the log must have been there
    #[arg(long, value_name = "LINES:HASH", value_parser = end)]
    end: Option<Head>,
    /// The fingerprint of the agent whose log it is, as `init` prints it: its signatures in the log
    /// must hold
    #[arg(long, value_name = "FINGERPRINT", value_parser = fingerprint)]
    by: Option<Fingerprint>,
    /// JSON with fixed keys
    #[arg(long)]
    json: bool,
}

fn fingerprint(text: &str) -> Result<Fingerprint, String> {
    let octets = octets_of(text).and_then(|it| it.as_slice().try_into().ok());
    let octets = octets.ok_or("a fingerprint has 64 hexadecimal digits, as `init` prints them")?;
    Ok(Fingerprint(Digest(octets)))
}

/// Reads a noted end.
fn end(text: &str) -> Result<Head, String> {
    let read = || {
        let (lines, hash) = text.split_once(':')?;
        let former: [u8; 32] = octets_of(hash)?.as_slice().try_into().ok()?;
        Some(Head {
            former: Digest(former),
            lines: lines.parse().ok()?,
        })
    };
    read().ok_or_else(|| "an end is LINES:HASH, such as 12:9f86...".to_owned())
}

/// The text to print. An error names the first bad line.
pub(super) fn run(args: &AuditArgs) -> anyhow::Result<String> {
    let context = || format!("cannot read {}", args.file.display());
    let file = files::open_plain(&args.file).with_context(context)?;
    if file.metadata().with_context(context)?.len() > LEN_MAX {
        bail!(
            "{} has more than {} MiB",
            args.file.display(),
            LEN_MAX >> 20
        );
    }
    let mut log = Vec::new();
    let read = file.take(LEN_MAX).read_to_end(&mut log);
    read.with_context(context)?;
    let name = args.file.display();
    let (role, whole) = match judge(&log, args.end, args.by) {
        Err(Broken::Changed { line: 1 }) => {
            bail!("{name} is no log of an agent, or its first line was changed or taken away")
        }
        // The chain holds up to there.
        Err(Broken::NotSigned { line }) => bail!(
            "{name}: line {line} is not a signature of the agent that --by names over the lines \
             before it: that is another agent's fingerprint, or somebody has made this log anew"
        ),
        judged => judged.with_context(|| format!("{name} was changed"))?,
    };
    demand_signature(args, whole)?;
    let (lines, former) = (whole.head.lines, whole.head.former);
    if args.json {
        let text = serde_json::json!({
            "file": args.file,
            "role": role,
            "lines": lines,
            "end": format!("{lines}:{former}"),
            "torn_octets": whole.torn,
            "signed_lines": args.by.map(|_| whole.signed),
        });
        return Ok(format!("{text}\n"));
    }
    if lines == 0 {
        return Ok(format!(
            "{name}: it has no lines yet, so it proves nothing\n"
        ));
    }
    let torn = match whole.torn {
        0 => String::new(),
        torn => format!(
            "a last line of {torn} octets is torn: the agent was stopped while it wrote, and cuts \
             it off at its next start\n"
        ),
    };
    let signed = match (args.by, whole.signed) {
        (None, _) => String::new(),
        (Some(_), signed) => format!(
            "the agent has signed the first {signed} lines; whoever could write the file could \
             write the {} after them\n",
            lines - signed
        ),
    };
    Ok(format!(
        "{name}: {lines} lines of {role}, in their order and unchanged\n{torn}{signed}\
         end {lines}:{former}\n"
    ))
}

/// Who asks whose log it is wants a proof.
fn demand_signature(args: &AuditArgs, whole: Whole) -> anyhow::Result<()> {
    if args.by.is_some() && whole.signed == 0 {
        bail!(
            "{}: no line is signed by this agent, so nothing is proven: its {} lines may be \
             anybody's",
            args.file.display(),
            whole.head.lines
        );
    }
    Ok(())
}

/// Whose log it is tells its first line.
fn judge(
    log: &[u8],
    noted: Option<Head>,
    by: Option<Fingerprint>,
) -> Result<(&'static str, Whole), Broken> {
    let mut first = Err(Broken::Changed { line: 1 });
    for role in [Role::Host, Role::Target, Role::Client] {
        let name = name_of(role);
        match verify(name, log, noted, by) {
            Err(Broken::Changed { line: 1 }) => {}
            Ok(whole) if whole.head.lines == 0 => first = Ok(("nobody", whole)),
            Err(Broken::NotWhatWasNoted { lines }) if log.is_empty() => {
                first = Err(Broken::NotWhatWasNoted { lines });
            }
            judged => return judged.map(|whole| (name, whole)),
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str) -> (String, Head) {
        let mut head = Head::start(name);
        let lines = ["one", "two", "three"].map(|text| head.append(text));
        (lines.concat(), head)
    }

    #[test]
    fn the_first_bad_line_of_any_role_s_log_is_named() {
        for role in [Role::Host, Role::Target, Role::Client] {
            let (text, head) = log(name_of(role));
            let (name, whole) = judge(text.as_bytes(), Some(head), None).unwrap();
            assert_eq!((name, whole.head), (name_of(role), head));
            let changed = text.replace("two", "twa");
            let bad = judge(changed.as_bytes(), None, None);
            assert_eq!(bad, Err(Broken::Changed { line: 3 }));
            let cut = text
                .rsplit_once("\n")
                .unwrap()
                .0
                .rsplit_once('\n')
                .unwrap()
                .0;
            let cut = format!("{cut}\n");
            let bad = judge(cut.as_bytes(), Some(head), None);
            assert_eq!(bad, Err(Broken::NotWhatWasNoted { lines: 3 }));
        }
        assert_eq!(
            judge(b"x y\n", None, None),
            Err(Broken::Changed { line: 1 })
        );
        assert_eq!(judge(b"", None, None).unwrap().1.head.lines, 0);
        let noted = Some(log("host").1);
        let bad = judge(b"", noted, None);
        assert_eq!(bad, Err(Broken::NotWhatWasNoted { lines: 3 }));
    }

    #[test]
    fn what_proves_nothing_is_said_and_fails_where_a_proof_is_wanted() {
        let name = format!("caravan-agent-audit-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        let said = |text: &str, by: bool| {
            std::fs::write(&file, text).unwrap();
            let args = AuditArgs {
                file: file.clone(),
                end: None,
                by: by.then_some(Fingerprint(Digest([1; 32]))),
                json: false,
            };
            run(&args).map_err(|fault| fault.to_string())
        };
        let (text, _) = log("host");
        assert!(said(&text, false).unwrap().contains("3 lines of host"));
        assert!(said(&text, true).unwrap_err().contains("nothing is proven"));
        assert!(said("", false).unwrap().contains("proves nothing"));
        assert!(said("", true).unwrap_err().contains("nothing is proven"));
        assert!(
            said("other\n", false)
                .unwrap_err()
                .contains("is no log of an agent")
        );
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_noted_end_reads_back() {
        let (_, head) = log("host");
        assert_eq!(end(&format!("3:{}", head.former)), Ok(head));
        assert!(end("3").is_err() && end("x:00").is_err());
    }
}
