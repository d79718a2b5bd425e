//! What a denied registration means, for people.

use wire::mip4::Code;

/// Who has refused the registration, with which code, by the name that drops have, and what that
/// means where it does not say enough.
pub(super) fn refused(code: Code) -> String {
    let who = match code.is_from_foreign_agent() {
        true => "the foreign agent",
        false => "the home agent",
    };
    let meaning = match code {
        Code::ForeignProhibited => ": it does not serve this home address or this home agent",
        Code::ForeignMobileAuthentication => ": the keys of node and foreign agent differ",
        Code::RegistrationTimeout => ": it has no answer from the home agent",
        Code::HomeNetworkUnreachable
        | Code::HomeAgentHostUnreachable
        | Code::HomeAgentPortUnreachable
        | Code::HomeAgentUnreachable => ": it does not reach `home_agent`",
        Code::HomeProhibited => {
            ": it may not, or asks in clear from elsewhere than its own address, as behind a NAT"
        }
        Code::HomeMobileAuthentication => ": the keys or the SPIs of `association` differ",
        Code::HomeForeignAuthentication => ": the keys of foreign agent and home agent differ",
        Code::IdentificationMismatch => ": the clocks differ by more than 7 s",
        Code::UnknownHomeAgent => ": `home_agent` is not its address",
        _ => "",
    };
    format!(
        "{who} refuses the registration: denied-{}{meaning}",
        code.number()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_who_refuses_and_what_that_means() {
        let text = refused(Code::HomeMobileAuthentication);
        assert_eq!(
            text,
            "the home agent refuses the registration: denied-131: the keys or the SPIs of \
             `association` differ"
        );
        let text = refused(Code::RegistrationTimeout);
        assert!(text.starts_with("the foreign agent refuses the registration: denied-78: "));
        assert!(refused(Code::HomeResources).ends_with("denied-130"));
    }
}
