use super::callables;
use crate::function::Function;
use crate::physical::{Fold, Op};
use crate::spec::SerdeSpec;
use stoatflow_core::StoreId;

#[test]
fn all_functions_of_an_operator_are_found() {
    let op = Op::TableAggregate {
        store: StoreId(0),
        key: SerdeSpec::Custom { custom: 9 },
        fold: Fold::Aggregate {
            initializer: Function::Udf(3),
            function: Function::Udf(1),
            merger: None,
        },
        subtractor: Some(Function::Udf(2)),
        old: false,
    };
    assert_eq!(callables(&op), [3, 1, 2]);
    assert_eq!(callables(&Op::Merge), [0; 0]);
}
