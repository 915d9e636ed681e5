//! Runs the broker contract suite against the simulated broker.

use stoatflow_log::contract;
use stoatflow_sim::SimBroker;

macro_rules! each {
    ($($case:ident),* $(,)?) => {
        $(#[test]
        fn $case() {
            contract::$case(&SimBroker::new(), "sim").unwrap_or_else(|e| panic!("{e}"));
        })*
    };
}

stoatflow_log::contract_cases!(each);
