//! A key sheet on paper: text, or a page of HTML with a QR code for each line.
//!
//! Each line is one QR code of the alphanumeric kind, at the correction that paper needs. Left out:
//! a page for each key; whoever wants that cuts the page.

use core::fmt::Write as _;

use anyhow::Context as _;
use engine::agent::sheet::{Head, Key};
use qrcodegen::{QrCode, QrCodeEcc, QrSegment};
use zeroize::Zeroizing;

use crate::qr::{draw, svg};

/// Octets for a line with its code, so that a page is not copied as it grows.
const LINE_LEN: usize = 24_000;

/// How a sheet looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Lines to type
    Text,
    /// Lines and their QR codes, for a terminal
    Terminal,
    /// A page for a browser, which prints it
    Html,
}

/// A sheet.
pub(super) struct Sheet<'a> {
    pub(super) head: &'a Head,
    pub(super) keys: &'a [Key],
}

impl Sheet<'_> {
    /// Its text. It has secrets.
    pub(super) fn render(&self, format: Format) -> anyhow::Result<Zeroizing<String>> {
        let head = self.head.to_line();
        let head = head.context("Host has too many addresses for a sheet, or a too long one")?;
        let lines = self.keys.iter().map(Key::to_line);
        let lines: Vec<Zeroizing<String>> = [head.into()].into_iter().chain(lines).collect();
        let each = match format {
            Format::Text => 200,
            Format::Terminal | Format::Html => LINE_LEN,
        };
        let mut page = Zeroizing::new(String::with_capacity(2_000 + each * lines.len()));
        match format {
            Format::Text => self.text(&mut page, &lines),
            Format::Terminal => {
                self.text(&mut page, &[]);
                for (at, line) in lines.iter().enumerate() {
                    let _ = writeln!(page, "{}\n{}", title(at), **line);
                    draw(&code(line)?, &mut page);
                }
            }
            Format::Html => self.html(&mut page, &lines)?,
        }
        Ok(page)
    }

    fn text(&self, page: &mut String, lines: &[Zeroizing<String>]) {
        let _ = writeln!(
            page,
            "One-time keys for a tunnel. Each works once; cross it out.\n\
             Host   {}\n\
             Target {}\n\
             valid until {}\n",
            self.head.host.fingerprint(),
            self.head.target,
            self.head.not_after
        );
        for (at, line) in lines.iter().enumerate() {
            let _ = writeln!(page, "{} {}", title(at), **line);
        }
    }

    fn html(&self, page: &mut String, lines: &[Zeroizing<String>]) -> anyhow::Result<()> {
        page.push_str(
            "<!doctype html>\n<meta charset=\"utf-8\">\n<title>One-time keys</title>\n<style>\n\
             body { font: 10pt sans-serif; margin: 12mm }\n\
             code { font-size: 8pt; overflow-wrap: anywhere }\n\
             div { display: inline-block; width: 56mm; margin: 2mm; vertical-align: top; \
             break-inside: avoid }\n\
             svg { width: 52mm; height: 52mm }\n</style>\n",
        );
        let _ = write!(
            page,
            "<h1>One-time keys for a tunnel</h1>\n<p>Each key works once; cross it out. Valid \
             until {}.</p>\n<p>Host <code>{}</code><br>Target <code>{}</code></p>\n",
            self.head.not_after,
            self.head.host.fingerprint(),
            self.head.target
        );
        for (at, line) in lines.iter().enumerate() {
            let _ = write!(page, "<div><b>{}</b><br>", title(at));
            svg(&code(line)?, page);
            let _ = writeln!(page, "<br><code>{}</code></div>", **line);
        }
        Ok(())
    }
}

fn title(at: usize) -> String {
    match at {
        0 => "head".to_owned(),
        number => format!("{number}."),
    }
}

fn code(line: &str) -> anyhow::Result<QrCode> {
    let segments = [QrSegment::make_alphanumeric(line)];
    QrCode::encode_segments(&segments, QrCodeEcc::Medium).context("a line is too long for a code")
}

#[cfg(test)]
mod tests {
    use crypto::ed25519::VerifyKey;
    use crypto::hpke::PublicKey;
    use engine::agent::identity::{Fingerprint, Identity};
    use engine::agent::sheet::Secret;
    use engine::agent::{Digest, Handle};
    use engine::time::Calendar;

    use crate::qr::BORDER;

    use super::*;

    fn head() -> Head {
        Head {
            host: Identity {
                sealing: PublicKey([1; 32]),
                signing: VerifyKey([2; 32]),
            },
            addresses: vec!["host.example:51516".into()],
            target: Fingerprint(Digest([3; 32])),
            not_after: Calendar(1_800_000_000),
        }
    }

    fn keys() -> Vec<Key> {
        let key = |octet| Key {
            handle: Handle([octet; 16]),
            secret: Secret::OneTime([octet; 32]),
        };
        vec![key(4), key(5)]
    }

    #[test]
    fn every_form_has_the_same_lines() {
        let (head, keys) = (head(), keys());
        let sheet = Sheet {
            head: &head,
            keys: &keys,
        };
        for format in [Format::Text, Format::Terminal, Format::Html] {
            let page = sheet.render(format).unwrap();
            for line in [&keys[0].to_line(), &keys[1].to_line()] {
                assert!(page.contains(&***line), "{format:?}");
            }
            assert!(page.contains(&head.to_line().unwrap()));
            assert!(page.contains("2027-01-15T08:00:00Z"), "{}", *page);
        }
        let html = sheet.render(Format::Html).unwrap();
        assert_eq!(html.matches("<svg").count(), 3);
    }

    /// The corners of a code are the same in both drawings: a finder pattern is dark at its edge.
    #[test]
    fn a_drawing_has_its_code_s_modules() {
        let code = code(&keys()[0].to_line()).unwrap();
        let mut drawn = String::new();
        draw(&code, &mut drawn);
        let rows: Vec<Vec<char>> = drawn.lines().map(|row| row.chars().collect()).collect();
        for y in -BORDER..code.size() + BORDER {
            for x in -BORDER..code.size() + BORDER {
                let row = &rows[((y + BORDER) / 2) as usize];
                let shown = row[(x + BORDER) as usize];
                let is_dark = match (y + BORDER) % 2 {
                    0 => matches!(shown, '▄' | ' '),
                    _ => matches!(shown, '▀' | ' '),
                };
                assert_eq!(is_dark, code.get_module(x, y), "{x}, {y}");
            }
        }
        let mut vector = String::new();
        svg(&code, &mut vector);
        let dark = (0..code.size()).flat_map(|y| (0..code.size()).map(move |x| (x, y)));
        let dark = dark.filter(|(x, y)| code.get_module(*x, *y)).count();
        assert_eq!(vector.matches("h1v1h-1z").count(), dark);
    }
}
