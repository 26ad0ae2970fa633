//! How much of what the two ends of the control channel say is decoded.

use crate::bounded::{Bounded, Field};
use crate::control::{Changes, FromOperator, FromSidecar, Item};
use crate::delta::{ITEMS_MAX, SESSIONS_MAX};

/// Sessions, and replicas outside of the cluster, of one report: twice what an operator accepts.
const REPORTED_MAX: usize = 2048;
/// Words of all lists of words of one message.
const WORDS_MAX: usize = 1 << 16;
/// Remotes of one configuration: a sidecar accepts 64 of each session.
const REMOTES_MAX: usize = SESSIONS_MAX * 64;
const ADDRESSES_MAX: usize = 2 * ITEMS_MAX;

const REGISTER: &[Field] = &[Field::leaf(6, "addresses", WORDS_MAX), Field::leaf(20, "features", WORDS_MAX)];

const REPORT: &[Field] = &[
    Field::message(3, "evidence reports", 1, &[Field::leaf(10, "words", WORDS_MAX)]),
    Field::message(4, "sessions", REPORTED_MAX, &[Field::leaf(14, "words", WORDS_MAX)]),
    Field::message(6, "externals", REPORTED_MAX, &[Field::leaf(7, "words", WORDS_MAX)]),
];

impl Bounded for FromSidecar {
    const FIELDS: &'static [Field] =
        &[Field::message(1, "registrations", 1, REGISTER), Field::message(2, "reports", 1, REPORT)];
}

const REMOTE: &[Field] =
    &[Field::message(2, "replicas", ITEMS_MAX, &[Field::leaf(3, "addresses", ADDRESSES_MAX)])];

const CONFIGURATION: &[Field] = &[
    Field::message(6, "sessions", SESSIONS_MAX, &[Field::message(12, "remotes", REMOTES_MAX, REMOTE)]),
    Field::leaf(20, "features", WORDS_MAX),
];

impl Bounded for FromOperator {
    const FIELDS: &'static [Field] = &[Field::message(1, "configurations", 1, CONFIGURATION)];
}

impl Bounded for Changes {
    const FIELDS: &'static [Field] =
        &[Field::message(1, "steps", ITEMS_MAX, &[Field::leaf(3, "items", ITEMS_MAX)])];
}

/// Words and addresses of one item, of which there are many.
const OF_ITEM_MAX: usize = 16;

impl Bounded for Item {
    const FIELDS: &'static [Field] = &[
        Field::message(
            1,
            "headers",
            1,
            &[Field::leaf(6, "sessions in a header", 0), Field::leaf(20, "features", OF_ITEM_MAX)],
        ),
        Field::message(3, "sessions", 1, &[Field::leaf(12, "remotes in an item", 0)]),
        Field::message(4, "remotes", 1, &[Field::leaf(2, "replicas in an item", 0)]),
        Field::message(5, "replicas", 1, &[Field::leaf(3, "addresses", OF_ITEM_MAX)]),
    ];
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use tonic_prost_build::FileDescriptorSet;

    use super::*;
    use crate::bounded::{BoundedError, check};
    use crate::control::item::Item as Kind;
    use crate::control::{
        Configuration, Delta, EvidenceReport, ExternalReport, Register, Remote, Replica, Report, Session,
        SessionReport, Step, from_operator, from_sidecar,
    };

    /// That `message` of `count` elements is decoded up to `max` of them, called `name`.
    fn bounds<M: Bounded>(name: &'static str, max: usize, message: impl Fn(usize) -> M) {
        let check = |count| check::<M>(&message(count).encode_to_vec());
        assert_eq!(check(max), Ok(()), "{name}");
        assert_eq!(check(max + 1), Err(BoundedError::TooMany { name, max }));
    }

    fn report(report: Report) -> FromSidecar {
        FromSidecar { message: Some(from_sidecar::Message::Report(report)) }
    }

    fn told(sessions: Vec<Session>) -> FromOperator {
        let configuration = Configuration { sessions, ..Configuration::default() };
        FromOperator { message: Some(from_operator::Message::Configuration(configuration)) }
    }

    fn words(count: usize) -> Vec<String> {
        vec![String::new(); count]
    }

    #[test]
    fn lists_of_sidecars_are_counted_before_they_are_decoded() {
        bounds("sessions", REPORTED_MAX, |count| {
            report(Report { sessions: vec![SessionReport::default(); count], ..Report::default() })
        });
        bounds("externals", REPORTED_MAX, |count| {
            report(Report { externals: vec![ExternalReport::default(); count], ..Report::default() })
        });
        bounds("words", WORDS_MAX, |count| {
            let evidence = EvidenceReport { degraded: words(count), ..EvidenceReport::default() };
            report(Report { evidence: Some(evidence), ..Report::default() })
        });
        bounds("words", WORDS_MAX, |count| {
            // Altogether, in however many sessions.
            let of = |count| SessionReport { degraded: words(count), ..SessionReport::default() };
            let sessions = vec![of(count / 2), of(count - count / 2)];
            report(Report { sessions, ..Report::default() })
        });
        bounds("words", WORDS_MAX, |count| {
            let external = ExternalReport { degraded: words(count), ..ExternalReport::default() };
            report(Report { externals: vec![external], ..Report::default() })
        });
        let register = |register| FromSidecar { message: Some(from_sidecar::Message::Register(register)) };
        bounds("addresses", WORDS_MAX, |count| {
            register(Register { addresses: words(count), ..Register::default() })
        });
        bounds("features", WORDS_MAX, |count| {
            register(Register { features: words(count), ..Register::default() })
        });
    }

    #[test]
    fn a_message_is_not_made_longer_by_saying_a_part_again() {
        // Of a message that comes twice, prost joins the lists.
        let twice = report(Report::default()).encode_to_vec().repeat(2);
        let max = 1;
        assert_eq!(check::<FromSidecar>(&twice), Err(BoundedError::TooMany { name: "reports", max }));
    }

    #[test]
    fn lists_of_operators_are_counted_before_they_are_decoded() {
        bounds("sessions", SESSIONS_MAX, |count| told(vec![Session::default(); count]));
        bounds("remotes", REMOTES_MAX, |count| {
            told(vec![Session { remotes: vec![Remote::default(); count], ..Session::default() }])
        });
        let remote = |replicas| {
            let remotes = vec![Remote { replicas, ..Remote::default() }];
            told(vec![Session { remotes, ..Session::default() }])
        };
        bounds("replicas", ITEMS_MAX, |count| remote(vec![Replica::default(); count]));
        bounds("addresses", ADDRESSES_MAX, |count| {
            remote(vec![Replica { addresses: words(count), ..Replica::default() }])
        });
        bounds("features", WORDS_MAX, |count| {
            let configuration = Configuration { features: words(count), ..Configuration::default() };
            FromOperator { message: Some(from_operator::Message::Configuration(configuration)) }
        });
        let delta = Delta { changes: vec![0; 1 << 20].into(), ..Delta::default() };
        let delta = FromOperator { message: Some(from_operator::Message::Delta(delta)) };
        assert_eq!(check::<FromOperator>(&delta.encode_to_vec()), Ok(()), "its changes are bytes here");
    }

    #[test]
    fn steps_and_items_of_a_change_are_counted_before_they_are_decoded() {
        bounds("steps", ITEMS_MAX, |count| Changes { steps: vec![Step::default(); count] });
        bounds("items", ITEMS_MAX, |count| {
            let of = |count| Step { items: vec![Vec::new(); count], ..Step::default() };
            Changes { steps: vec![of(1), of(count - 1)] }
        });
    }

    #[test]
    fn an_item_holds_no_other_and_few_words() {
        let item = |item| Item { item: Some(item) };
        bounds("sessions in a header", 0, |count| {
            let sessions = vec![Session::default(); count];
            item(Kind::Header(Configuration { sessions, ..Configuration::default() }))
        });
        bounds("features", OF_ITEM_MAX, |count| {
            item(Kind::Header(Configuration { features: words(count), ..Configuration::default() }))
        });
        bounds("remotes in an item", 0, |count| {
            item(Kind::Session(Session { remotes: vec![Remote::default(); count], ..Session::default() }))
        });
        bounds("replicas in an item", 0, |count| {
            item(Kind::Remote(Remote { replicas: vec![Replica::default(); count], ..Remote::default() }))
        });
        bounds("addresses", OF_ITEM_MAX, |count| {
            item(Kind::Replica(Replica { addresses: words(count), ..Replica::default() }))
        });
    }

    /// descriptor.proto: `LABEL_REPEATED`.
    const REPEATED: i32 = 3;

    /// The fields of a message of control.proto: number, whether it is repeated, and the message that it is.
    fn fields_of(set: &FileDescriptorSet, message: &str) -> Vec<(u32, bool, Option<String>)> {
        let mut messages = set.file.iter().flat_map(|file| &file.message_type);
        let found = messages.find(|found| found.name() == message).expect("control.proto has it");
        let number = |field: i32| u32::try_from(field).unwrap();
        let nested = |name: &str| name.rsplit('.').next().filter(|name| !name.is_empty()).map(str::to_owned);
        let fields = found.field.iter();
        fields
            .map(|field| (number(field.number()), field.label == Some(REPEATED), nested(field.type_name())))
            .collect()
    }

    fn grows(set: &FileDescriptorSet, message: &str) -> bool {
        let grows = |nested: &String| grows(set, nested);
        fields_of(set, message)
            .iter()
            .any(|(_, repeated, nested)| *repeated || nested.as_ref().is_some_and(grows))
    }

    fn assert_bounded(set: &FileDescriptorSet, message: &str, fields: &[Field]) {
        for (number, repeated, nested) in fields_of(set, message) {
            let nested = nested.filter(|nested| grows(set, nested));
            if !repeated && nested.is_none() {
                continue;
            }
            let bound = fields.iter().find(|field| field.number == number);
            let Field { max, fields, .. } =
                bound.unwrap_or_else(|| panic!("{message} {number} is not counted"));
            if let Some(nested) = nested.filter(|_| *max > 0) {
                assert_bounded(set, &nested, fields);
            }
        }
    }

    #[test]
    fn everything_that_can_be_repeated_is_counted() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
        let set = protox::compile(["control.proto"], [folder]).unwrap();
        assert_bounded(&set, "FromSidecar", FromSidecar::FIELDS);
        assert_bounded(&set, "FromOperator", FromOperator::FIELDS);
        assert_bounded(&set, "Changes", Changes::FIELDS);
        assert_bounded(&set, "Item", Item::FIELDS);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(check::<FromSidecar>(&[0x0a, 5, 0]), Err(BoundedError::Truncated));
        assert!(matches!(check::<FromSidecar>(&[0xff]), Err(BoundedError::Malformed(_))));
    }
}
