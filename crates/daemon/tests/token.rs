//! The helper for tokens as a program: what the agent hears when there is no token to use.

use std::path::Path;

use daemon::agent::token::{Refusal, TokenError, TokenHelper};
use engine::agent::Handle;
use tokio::runtime::{Builder, Runtime};

const HELPER: &str = env!("CARGO_BIN_EXE_caravan-token");
const HANDLE: Handle = Handle([7; 16]);

fn runtime() -> Runtime {
    let built = Builder::new_current_thread().enable_all().build();
    built.expect("a runtime")
}

#[test]
fn a_module_that_is_missing_is_refused_and_the_helper_goes_on() {
    runtime().block_on(async {
        let module = Path::new("/nonexistent/module.so");
        let helper = TokenHelper::start(Path::new(HELPER), module, None);
        let mut helper = helper.expect("it starts");
        for _ in 0..2 {
            let refused = helper.tokens().await.expect_err("no module");
            assert!(matches!(refused, TokenError::Refused(Refusal::Module)));
        }
        let refused = helper.log_in("work").await.expect_err("no module");
        assert!(matches!(refused, TokenError::Refused(Refusal::Module)));
        let refused = helper.sign(HANDLE, b"octets").await.expect_err("no token");
        assert!(matches!(refused, TokenError::Refused(Refusal::NotOpen)));
        let long = vec![0; 5_000];
        let refused = helper.sign(HANDLE, &long).await.expect_err("too long");
        assert!(matches!(refused, TokenError::TooLong));
    });
}

#[test]
fn a_helper_that_is_missing_or_none_is_told() {
    runtime().block_on(async {
        let module = Path::new("module.so");
        let missing = TokenHelper::start(Path::new("/nonexistent/caravan-token"), module, None);
        let text = missing.err().map(|fault| fault.to_string());
        let text = text.expect("it does not start");
        assert!(text.contains("keys on tokens cannot be used"), "{text}");
        let mut wrong = TokenHelper::start(Path::new("/bin/true"), module, None).expect("started");
        assert!(matches!(wrong.removed().await, TokenError::Gone));
        assert!(matches!(wrong.tokens().await, Err(TokenError::Gone)));
    });
}
