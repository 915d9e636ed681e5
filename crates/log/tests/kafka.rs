//! Real broker.
