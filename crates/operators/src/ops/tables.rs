//! Operators on tables: sources, filters, mapped values, groups, suppress, and reads by key.

pub(crate) mod expire;
pub(crate) mod suppress;
pub(crate) mod table;
pub(crate) mod table_aggregate;
pub(crate) mod table_filter;
pub(crate) mod table_group_by;
pub(crate) mod table_map_values;
pub(crate) mod table_update;
pub(crate) mod to_stream;
pub(crate) mod transform_values;
pub(crate) mod unversioned;
pub(crate) mod view_read;
