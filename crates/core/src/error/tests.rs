//! The table of error kinds is complete, and a message says where it happened and what to do next.

use super::*;

/// The next kind; the match has no wildcard, so a new kind doesn't compile until it is listed here.
fn next(kind: ErrorKind) -> Option<ErrorKind> {
    use ErrorKind::*;
    Some(match kind {
        Config => Topology,
        Topology => Serde,
        Serde => User,
        User => Unavailable,
        Unavailable => Fenced,
        Fenced => MissingTopic,
        MissingTopic => Unauthorized,
        Unauthorized => StateCorrupt,
        StateCorrupt => Incompatible,
        Incompatible => StateLocked,
        StateLocked => DiskFull,
        DiskFull => UnknownOutcome,
        UnknownOutcome => Stalled,
        Stalled => ChangesLost,
        ChangesLost => Internal,
        Internal => return None,
    })
}

#[test]
fn every_kind_has_a_name_and_an_action() {
    let all: Vec<_> = std::iter::successors(Some(ErrorKind::Config), |k| next(*k)).collect();
    assert_eq!(all.len(), ERROR_KINDS.len());
    for kind in all {
        let rows: Vec<_> = ERROR_KINDS.iter().filter(|row| row.0 == kind).collect();
        assert_eq!(rows.len(), 1, "{kind:?}");
        assert_eq!(kind.name(), rows[0].1);
        assert!(!kind.action().is_empty(), "{kind:?}");
        assert_eq!(
            ERROR_KINDS
                .iter()
                .filter(|row| row.1 == kind.name())
                .count(),
            1,
            "{kind:?}"
        );
    }
}

#[test]
fn a_message_has_coordinates_cause_and_next_step() {
    let error = Error::user("it raised")
        .at(|w| {
            w.topic = Some("orders".into());
            w.partition = Some(Partition(2));
        })
        .at(|w| {
            w.topic = Some("another".into());
            w.offset = Some(Offset(17));
        })
        .caused_by("ValueError")
        .hint("look at line 3");
    assert_eq!(
        error.to_string(),
        "it raised [topic orders, partition 2, offset 17]: ValueError. Next: look at line 3"
    );
    assert_eq!(
        Error::fenced("gone").next_step(),
        ErrorKind::Fenced.action()
    );
}

#[test]
fn a_cause_within_the_message_is_not_repeated() {
    let error = Error::user("the function raised ValueError: x")
        .at(|at| at.node = Some("parse".into()))
        .caused_by("ValueError: x");
    assert_eq!(
        error.brief().to_string(),
        "the function raised ValueError: x [node parse]"
    );
}

#[test]
fn only_the_outermost_error_has_a_next_step() {
    let error = Error::unavailable("no broker answered")
        .caused_by(Error::internal("refused"))
        .hint("start it");
    assert_eq!(
        error.to_string(),
        "no broker answered: refused. Next: start it"
    );
    assert_eq!(error.brief().to_string(), "no broker answered: refused");
}
