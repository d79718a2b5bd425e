//! The helper for keys on PKCS #11 tokens: it only calls the `daemon` library.

use std::process::ExitCode;

fn main() -> ExitCode {
    daemon::agent::token::helper::main()
}
