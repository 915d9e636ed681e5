//! Serdes of joins.
//!
//! Takes the sides of a join and the arguments of its call, returns the serdes of its stores and
//! exchanges. Both sides must encode their keys in the same way: records are matched by the bytes of
//! their keys.

use super::{JoinSerdes, Pass, Side, given};
use crate::Expression;
use crate::check::Kind;
use crate::function::Function;
use crate::infer::infer;
use crate::logical::JoinArguments;
use crate::problems::place;
use crate::spec::SerdeSpec;
use stoatflow_core::CustomSerde;

impl Pass<'_> {
    /// Decides the serdes of a join, returns the sides of its result.
    pub(super) fn join(&mut self, i: usize, j: &JoinArguments) -> (Side, Side) {
        let kinds = (self.shape.kinds[j.from], self.shape.kinds[j.other]);
        let (left, right) = (self.sides[j.from].clone(), self.sides[j.other].clone());
        match kinds {
            (Kind::Stream, Kind::Stream) => self.streams(i, j, &left, &right),
            (Kind::Stream, Kind::Table) => self.stream_table(i, j, &left, &right),
            (Kind::Stream, _) => {
                let any = SerdeSpec::Builtin("bytes".into());
                self.serdes.join[i] = right.0.known().map(|key| JoinSerdes {
                    key: any.clone(),
                    left: any.clone(),
                    right: any.clone(),
                    foreign: key.clone(),
                });
                let value = self.joined(i, j, &left, &right);
                (left.0, value)
            }
            _ if j.foreign_key.is_some() => self.foreign(i, j, &left, &right),
            _ => self.tables(i, j, &left, &right),
        }
    }

    fn streams(
        &mut self,
        i: usize,
        j: &JoinArguments,
        left: &(Side, Side),
        right: &(Side, Side),
    ) -> (Side, Side) {
        self.same_keys(i, j, &left.0, &right.0);
        let named = |s: &Option<SerdeSpec>, side: &Side| {
            s.clone().map_or_else(|| side.clone(), Side::Known)
        };
        let key = match (named(&j.key, &left.0), &right.0) {
            (Side::Lost(_), Side::Known(key)) => Side::Known(key.clone()),
            (side, _) => side,
        };
        let key = self.settle(i, "key", key, "StreamJoined(key=...)");
        let l = self.settle(
            i,
            "left value",
            named(&j.value, &left.1),
            "StreamJoined(value=...)",
        );
        let r = self.settle(
            i,
            "right value",
            named(&j.other_value, &right.1),
            "StreamJoined(other=...)",
        );
        let side = key.clone().map_or(Side::Reported, Side::Known);
        if let (Some(key), Some(left), Some(right)) = (key, l, r) {
            self.serdes.join[i] = Some(JoinSerdes {
                foreign: key.clone(),
                key,
                left,
                right,
            });
        }
        (side, self.joined(i, j, left, right))
    }

    fn stream_table(
        &mut self,
        i: usize,
        j: &JoinArguments,
        left: &(Side, Side),
        right: &(Side, Side),
    ) -> (Side, Side) {
        self.same_keys(i, j, &left.0, &right.0);
        let of_table = right.0.known().cloned();
        let key = j
            .key
            .clone()
            .or_else(|| left.0.known().cloned())
            .or_else(|| of_table.clone());
        // Values are written only if records wait for the table.
        let value = j.value.clone().map_or_else(|| left.1.clone(), Side::Known);
        let value = if j.grace_ms.is_some() {
            self.settle(i, "value", value, "Joined(value=...)")
        } else {
            let known = value.known().cloned();
            known.or_else(|| Some(SerdeSpec::Builtin("bytes".into())))
        };
        let result = match (&j.key, &left.0) {
            (Some(key), _) => Side::Known(key.clone()),
            (None, side) => side.clone(),
        };
        if let (Some(key), Some(left), Some(table)) = (key, value, of_table) {
            self.serdes.join[i] = Some(JoinSerdes {
                key,
                right: left.clone(),
                left,
                foreign: table,
            });
        }
        (result, self.joined(i, j, left, right))
    }

    fn tables(
        &mut self,
        i: usize,
        j: &JoinArguments,
        left: &(Side, Side),
        right: &(Side, Side),
    ) -> (Side, Side) {
        self.same_keys(i, j, &left.0, &right.0);
        let (m_key, m_value) = given(j.materialized.as_ref());
        let key = m_key.map_or_else(|| left.0.clone(), Side::Known);
        let value = m_value.map_or_else(|| self.joined(i, j, left, right), Side::Known);
        if let Some(own) = key.known() {
            let any = SerdeSpec::Builtin("bytes".into());
            self.serdes.join[i] = Some(JoinSerdes {
                key: own.clone(),
                left: any.clone(),
                right: any.clone(),
                foreign: own.clone(),
            });
        }
        if j.materialized.is_none() {
            return (key, value);
        }
        let key = self.settle(i, "key", key, "Materialized(key=...)");
        let value = self.settle(i, "value", value, "Materialized(value=...)");
        let side = |s: &Option<SerdeSpec>| s.clone().map_or(Side::Reported, Side::Known);
        let sides = (side(&key), side(&value));
        self.serdes.used[i] = key.zip(value);
        sides
    }

    fn foreign(
        &mut self,
        i: usize,
        j: &JoinArguments,
        left: &(Side, Side),
        right: &(Side, Side),
    ) -> (Side, Side) {
        let (m_key, m_value) = given(j.materialized.as_ref());
        let own = self.settle(
            i,
            "key",
            left.0.clone(),
            "Materialized(key=...) to the left table",
        );
        let hashed = self.settle(
            i,
            "left value",
            left.1.clone(),
            "Materialized(value=...) to the left table",
        );
        let foreign = self.settle(
            i,
            "right key",
            right.0.clone(),
            "Materialized(key=...) to the right table",
        );
        let value = self.settle(
            i,
            "value",
            m_value.map_or_else(|| self.joined(i, j, left, right), Side::Known),
            "Materialized(value=...)",
        );
        if let (Some(key), Some(left), Some(foreign)) = (own.clone(), hashed, foreign) {
            self.serdes.join[i] = Some(JoinSerdes {
                key,
                right: left.clone(),
                left,
                foreign,
            });
        }
        let key = m_key.or(own);
        let side = |s: &Option<SerdeSpec>| s.clone().map_or(Side::Reported, Side::Known);
        let sides = (side(&key), side(&value));
        self.serdes.used[i] = key.zip(value);
        sides
    }

    /// The type of a joiner's result, if it is a native expression.
    fn joined(
        &self,
        i: usize,
        j: &JoinArguments,
        left: &(Side, Side),
        right: &(Side, Side),
    ) -> Side {
        match &j.function {
            Function::Expr(Expression::Left) => left.1.clone(),
            Function::Expr(Expression::Right) => right.1.clone(),
            Function::Expr(e) => {
                let given = infer(e, left.0.known(), None).serde();
                given.map_or(Side::Lost(i), Side::Known)
            }
            _ => Side::Lost(i),
        }
    }

    /// Requires the same encoding of keys: records are matched by the bytes of their keys.
    fn same_keys(&mut self, i: usize, j: &JoinArguments, left: &Side, right: &Side) {
        if let (Some(l), Some(r)) = (left.known(), right.known())
            && !l.writes_as(r)
        {
            let at = |i: usize| place(&self.plan.nodes[i], i);
            let what = format!(
                "joins keys that are written differently: {} of {}, {} of {}; give both the same serde, or call .select_key(...) on one of them",
                self.words(l),
                at(j.from),
                self.words(r),
                at(j.other)
            );
            self.problems.at(self.plan, i, what);
        }
    }

    pub(super) fn words(&self, serde: &SerdeSpec) -> String {
        match serde {
            SerdeSpec::Builtin(name) => name.clone(),
            SerdeSpec::Avro { avro } => match avro.format() {
                Ok(format) => format.name().to_owned(),
                Err(_) => "avro".into(),
            },
            SerdeSpec::Protobuf { protobuf } => match protobuf.format() {
                Ok(format) => format.name().to_owned(),
                Err(_) => "protobuf".into(),
            },
            SerdeSpec::JsonSchema { .. } => "json_schema".into(),
            SerdeSpec::Custom { custom } => self
                .plan
                .serdes
                .get(*custom as usize)
                .cloned()
                .unwrap_or_else(|| "a custom serde".into()),
            SerdeSpec::TimeWindowed {
                time_windowed,
                size_ms,
            } => format!("{} in windows of {size_ms} ms", self.words(time_windowed)),
            SerdeSpec::SessionWindowed { session_windowed } => {
                format!("{} in sessions", self.words(session_windowed))
            }
        }
    }
}
