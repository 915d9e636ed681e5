//! Stateless operators: each record produces any number of records.

pub(crate) mod filter;
pub(crate) mod filter_not;
pub(crate) mod flat_map;
pub(crate) mod flat_map_core;
pub(crate) mod flat_map_values;
pub(crate) mod foreach;
pub(crate) mod map;
pub(crate) mod map_values;
pub(crate) mod peek;
pub(crate) mod select_key;
