//! Security objectives, and the IPsec option that satisfies them. The paper's Tables 1 to 4 are
//! printed from what the machines use: [`table`].
//!
//! Today's reading: AH authenticates a packet by a shared key, so a third party cannot be shown who
//! made it, and O.NonRepudiation comes from the signed request alone. RFC 8221 §4 does not
//! recommend that ESP's authentication comes from AH; ESP that authenticates also satisfies
//! O.IntegrityAttrExch. The machines pick options by the paper's table all the same.

use core::fmt;

/// A threat (Common Criteria 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threat {
    /// Attackers trick users into spurious services.
    Spoofing,
    /// Eavesdropping.
    HackCommEavesdrop,
}

/// A security objective (Common Criteria 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objective {
    /// A trusted channel to a remote trusted system.
    CommTrustedChannel,
    /// Confidentiality of exchanged user data.
    DataExchangeConf,
    /// Secure session establishment with a remote system, by encryption.
    CryptoCommChannel,
    /// Correct exchange of security attributes with another trusted product.
    IntegrityAttrExch,
    /// Users cannot escape accountability.
    NonRepudiation,
}

/// A protocol of IPsec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RFC 4302.
    Ah,
    /// RFC 4303.
    Esp,
}

/// An IPsec option; its ID is that of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecurityOption {
    /// 1: no IPsec.
    Native = 1,
    /// 2
    Ah = 2,
    /// 3
    Esp = 3,
    /// 4: two layers.
    AhEsp = 4,
}

/// A set of objectives: the Objective ID of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Objectives(u8);

/// A set of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options(u8);

impl Threat {
    /// Every threat.
    pub const ALL: [Self; 2] = [Self::Spoofing, Self::HackCommEavesdrop];

    /// Its name in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spoofing => "T.Spoofing",
            Self::HackCommEavesdrop => "T.HackCommEavesdrop",
        }
    }

    /// What it is.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Spoofing => "attackers trick users into spurious services",
            Self::HackCommEavesdrop => "attackers eavesdrop",
        }
    }

    /// The objectives that counter it.
    pub const fn objectives(self) -> &'static [Objective] {
        match self {
            Self::Spoofing => &[
                Objective::CommTrustedChannel,
                Objective::CryptoCommChannel,
                Objective::IntegrityAttrExch,
                Objective::NonRepudiation,
            ],
            Self::HackCommEavesdrop => &[Objective::DataExchangeConf],
        }
    }
}

impl Objective {
    /// Every objective, in the order of the paper's table.
    pub const ALL: [Self; 5] = [
        Self::CommTrustedChannel,
        Self::DataExchangeConf,
        Self::CryptoCommChannel,
        Self::IntegrityAttrExch,
        Self::NonRepudiation,
    ];

    /// Its name in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CommTrustedChannel => "O.CommTrustedChannel",
            Self::DataExchangeConf => "O.DataExchangeConf",
            Self::CryptoCommChannel => "O.CryptoCommChannel",
            Self::IntegrityAttrExch => "O.IntegrityAttrExch",
            Self::NonRepudiation => "O.NonRepudiation",
        }
    }

    /// What it is.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::CommTrustedChannel => {
                "a trusted channel to a remote trusted system for security-critical operations"
            }
            Self::DataExchangeConf => "confidentiality of exchanged user data",
            Self::CryptoCommChannel => {
                "secure session establishment with a remote system, by encryption"
            }
            Self::IntegrityAttrExch => {
                "correct exchange of security attributes with another trusted product"
            }
            Self::NonRepudiation => "users cannot escape accountability",
        }
    }

    /// The protocol that satisfies it.
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::IntegrityAttrExch | Self::NonRepudiation => Protocol::Ah,
            Self::CommTrustedChannel | Self::DataExchangeConf | Self::CryptoCommChannel => {
                Protocol::Esp
            }
        }
    }

    /// The objective of this name, with or without `O.`.
    pub fn of_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.name() == name || one.name().strip_prefix("O.") == Some(name))
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl SecurityOption {
    /// Every option, by ID.
    pub const ALL: [Self; 4] = [Self::Native, Self::Ah, Self::Esp, Self::AhEsp];

    /// Its ID.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The option of an ID.
    pub fn of_id(id: u8) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.id() == id)
    }

    /// Its name in the paper.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "Native",
            Self::Ah => "AH",
            Self::Esp => "ESP",
            Self::AhEsp => "AH+ESP",
        }
    }

    /// Its protocols.
    pub const fn protocols(self) -> &'static [Protocol] {
        match self {
            Self::Native => &[],
            Self::Ah => &[Protocol::Ah],
            Self::Esp => &[Protocol::Esp],
            Self::AhEsp => &[Protocol::Ah, Protocol::Esp],
        }
    }

    /// Whether it satisfies an objective.
    pub fn satisfies(self, objective: Objective) -> bool {
        self.protocols().contains(&objective.protocol())
    }
}

impl Objectives {
    /// Of the number in a request. None if it has bits that are no objective.
    pub const fn of_number(number: u8) -> Option<Self> {
        match number >> Objective::ALL.len() {
            0 => Some(Self(number)),
            _ => None,
        }
    }

    /// The number for a request.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether it is one of them.
    pub const fn has(self, objective: Objective) -> bool {
        self.0 & objective.bit() != 0
    }

    /// The option with the fewest protocols that satisfies all of them.
    pub fn option(self) -> SecurityOption {
        let mut wanted = Objective::ALL.into_iter().filter(|one| self.has(*one));
        let mut all = SecurityOption::ALL.into_iter();
        all.find(|option| wanted.clone().all(|one| option.satisfies(one)))
            .unwrap_or_else(|| unreachable!("AH+ESP satisfies all, {:?} too", wanted.next()))
    }
}

impl FromIterator<Objective> for Objectives {
    fn from_iter<I: IntoIterator<Item = Objective>>(list: I) -> Self {
        Self(list.into_iter().fold(0, |set, one| set | one.bit()))
    }
}

impl Options {
    /// All four.
    pub const ALL: Self = Self(0b1111);

    /// Of the number in a message; bits that are no option do not count.
    pub const fn of_number(number: u8) -> Self {
        Self(number & Self::ALL.0)
    }

    /// The number for a message.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether it is one of them.
    pub const fn has(self, option: SecurityOption) -> bool {
        self.0 & 1 << (option.id() - 1) != 0
    }
}

impl FromIterator<SecurityOption> for Options {
    fn from_iter<I: IntoIterator<Item = SecurityOption>>(list: I) -> Self {
        Self(
            list.into_iter()
                .fold(0, |set, one| set | 1 << (one.id() - 1)),
        )
    }
}

/// A function of AAA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Who is it?
    Authentication,
    /// May he?
    Authorization,
    /// What has he used?
    Accounting,
}

impl Function {
    /// All three.
    pub const ALL: [Self; 3] = [Self::Authentication, Self::Authorization, Self::Accounting];

    /// Where it happens, by step. The paper's Table 4 prints step 2 for accounting; its text and
    /// these machines mark the pair as used in step 3.
    pub const fn steps(self) -> &'static [&'static str] {
        match self {
            Self::Authentication => &["2 ticket", "4 user", "8 source of the key"],
            Self::Authorization => &["2 to 3", "4 to 5"],
            Self::Accounting => &["3 the pair is marked used"],
        }
    }
}

/// What today says of the paper's options, each sentence with its source.
pub const READING: [(&str, &str); 6] = [
    (
        "AH authenticates a packet by a key that both ends share, so it proves nothing to a third \
         party; O.NonRepudiation comes from the request that the user has signed, if nobody else \
         ever had the key's secret: by `make` or on a token, not if `issue` has made it at Host",
        "RFC 4302 §1, and the request's Ed25519 signature, RFC 8032 §5.1",
    ),
    (
        "ESP whose suite authenticates satisfies O.IntegrityAttrExch too, for all that it carries; \
         AH also covers the outer header",
        "RFC 4303 §1, RFC 4302 §1",
    ),
    (
        "ESP that is authenticated by AH is not recommended: an AEAD suite of ESP alone is",
        "RFC 8221 §4",
    ),
    (
        "an implementation of IPsec must have ESP and may have AH",
        "RFC 4301 §3.2",
    ),
    (
        "a VPN client is evaluated with ESP in tunnel mode and AES-GCM; AH is not asked for",
        "NIAP, PP-Module for VPN Clients 2.4, FCS_IPSEC_EXT.1.2 and 1.4",
    ),
    (
        "US national security systems use IKEv2, and ESP with AES of 256 bits, as AES-GCM in the \
         named suites; AH must not be used",
        "CNSA suite for IPsec, RFC 9206 §4, RFC 9206 §5, RFC 9206 §11",
    ),
];

/// A table of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Objectives and what they mean.
    Objectives,
    /// Threats and the objectives that counter them.
    Threats,
    /// Options and the objectives that they satisfy.
    Options,
    /// Functions of AAA and their steps.
    Aaa,
}

/// Rows of cells, the first row has the titles.
pub fn table(which: Table) -> Vec<Vec<String>> {
    let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
    match which {
        Table::Objectives => {
            let rows = Objective::ALL.map(|one| row(&[one.name(), one.meaning()]));
            [row(&["objective", "meaning"])]
                .into_iter()
                .chain(rows)
                .collect()
        }
        Table::Threats => {
            let rows = Threat::ALL.map(|threat| {
                let objectives = threat.objectives().iter().map(|one| one.name());
                row(&[threat.name(), &objectives.collect::<Vec<_>>().join(" ")])
            });
            [row(&["threat", "objectives"])]
                .into_iter()
                .chain(rows)
                .collect()
        }
        Table::Options => {
            let names = Objective::ALL.map(Objective::name);
            let title = row(&[&["option", "ID"][..], &names].concat());
            let rows = SecurityOption::ALL.map(|option| {
                let id = option.id().to_string();
                let marks = Objective::ALL.map(|one| match option.satisfies(one) {
                    true => "x",
                    false => "",
                });
                row(&[&[option.name(), &id][..], &marks].concat())
            });
            [title].into_iter().chain(rows).collect()
        }
        Table::Aaa => {
            let rows = Function::ALL.map(|one| {
                let name = format!("{one:?}").to_lowercase();
                row(&[&name, &one.steps().join(", ")])
            });
            [row(&["function", "steps"])]
                .into_iter()
                .chain(rows)
                .collect()
        }
    }
}

impl fmt::Display for SecurityOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's option table.
    #[test]
    fn options_satisfy_what_the_paper_prints() {
        let printed = [
            "Native 1 . . . . .",
            "AH 2 . . . x x",
            "ESP 3 x x x . .",
            "AH+ESP 4 x x x x x",
        ];
        let rows = table(Table::Options);
        let rows = rows[1..].iter().map(|row| {
            let cells = row.iter().map(|cell| match cell.as_str() {
                "" => ".",
                cell => cell,
            });
            cells.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(rows.collect::<Vec<_>>(), printed);
        assert_eq!(table(Table::Objectives).len(), 6);
        assert_eq!(table(Table::Aaa).len(), 4);
        let countered = table(Table::Threats);
        assert_eq!(countered[2], ["T.HackCommEavesdrop", "O.DataExchangeConf"]);
    }

    #[test]
    fn every_set_of_objectives_gets_the_smallest_option() {
        for number in 0..32 {
            let set = Objectives::of_number(number).unwrap();
            let wanted = |one: &Objective| set.has(*one);
            let option = set.option();
            assert!(
                Objective::ALL
                    .iter()
                    .filter(|it| wanted(it))
                    .all(|it| option.satisfies(*it))
            );
            let smaller = SecurityOption::ALL.into_iter().filter(|other| {
                other.protocols().len() < option.protocols().len()
                    && Objective::ALL
                        .iter()
                        .filter(|it| wanted(it))
                        .all(|it| other.satisfies(*it))
            });
            assert_eq!(smaller.count(), 0, "{set:?}");
        }
        assert_eq!(Objectives::of_number(32), None);
        let spoofing: Objectives = Threat::Spoofing.objectives().iter().copied().collect();
        assert_eq!(spoofing.option(), SecurityOption::AhEsp);
        assert_eq!(
            Objective::of_name("NonRepudiation"),
            Some(Objective::NonRepudiation)
        );
        assert_eq!(Objective::of_name("O.Nothing"), None);
    }

    #[test]
    fn options_are_a_set() {
        let some: Options = [SecurityOption::Esp].into_iter().collect();
        assert!(some.has(SecurityOption::Esp) && !some.has(SecurityOption::Native));
        assert_eq!(Options::of_number(0xff), Options::ALL);
        assert_eq!(SecurityOption::of_id(4), Some(SecurityOption::AhEsp));
        assert_eq!(SecurityOption::of_id(0), None);
    }
}
