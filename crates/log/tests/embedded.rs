//! The contract suite on the embedded broker: on disk, and in its temporary directory.

use stoatflow_log::{contract, embedded};

macro_rules! each {
    ($($case:ident),* $(,)?) => {
        mod on_disk {
            use super::{contract, embedded};
            $( #[test] fn $case() {
                let place = tempfile::tempdir().expect("a temporary directory");
                let broker = embedded::open(Some(place.path())).expect("an empty directory opens");
                if let Err(e) = contract::$case(broker.as_ref(), "suite") { panic!("{e}") }
            } )*
        }
        mod temporary {
            use super::{contract, embedded};
            $( #[test] fn $case() {
                let broker = embedded::open(None).expect("a temporary broker opens");
                if let Err(e) = contract::$case(broker.as_ref(), "suite") { panic!("{e}") }
            } )*
        }
    };
}

stoatflow_log::contract_cases!(each);
