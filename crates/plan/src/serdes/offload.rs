//! Serdes of an offload: parked records, requests and responses.
//!
//! Takes what is known about the stream and the arguments of the call, returns the serdes of its topics
//! and its store.

use super::{Pass, Side};
use crate::Expression;
use crate::function::Function;
use crate::infer::infer;
use crate::offloading::OffloadSpec;
use crate::spec::SerdeSpec;

/// The serdes that an offload writes with.
#[derive(Clone, Debug)]
pub(crate) struct OffloadSerdes {
    /// Serde of keys: responses find their records by the bytes.
    pub(crate) key: SerdeSpec,
    /// Serde of parked values, as far as known.
    pub(crate) value: SerdeSpec,
    /// Serde of requests.
    pub(crate) request: SerdeSpec,
}

impl Pass<'_> {
    /// Decides the serdes, returns the sides of the result.
    pub(super) fn offload(&mut self, i: usize, o: &OffloadSpec) -> (Side, Side) {
        let (key, value) = self.sides[o.from].clone();
        if let (Some(own), Some(above)) = (&o.key, key.known())
            && own != above
            && !self.shape.rekeyed[o.from]
        {
            self.problems.at(
                self.plan,
                i,
                "writes keys otherwise than its stream's are read, so answers would not come to the lane of their \
                 record. Leave key= out, or give records a new key before it: .select_key(...)",
            );
        }
        let key = o.key.clone().map_or(key, Side::Known);
        let key = self.settle(i, "key", key, "key=");
        let request = match (&o.request_value, &o.request) {
            (Some(serde), _) => Some(serde.clone()),
            (None, None) => self.settle(i, "request value", value.clone(), "request_value="),
            (None, Some(function)) => {
                let given = self.result(i, o.from, function, false).known().cloned();
                let known = given.or_else(|| self.plan.default_value.clone());
                if known.is_none() {
                    self.problems.at(
                        self.plan,
                        i,
                        "doesn't know how requests are written: request= can give anything. Give request_value=",
                    );
                }
                known
            }
        };
        // Parked values have a form of their own, unless they are objects of the user's language.
        let parked = value.known().cloned();
        let parked = parked.or_else(|| self.plan.default_value.clone());
        let parked = parked.unwrap_or_else(|| SerdeSpec::Builtin("json".into()));
        let given = match &o.function {
            Function::Expr(Expression::Left) => value,
            Function::Expr(Expression::Right) => Side::Known(o.response_value.clone()),
            Function::Expr(e) => {
                let given = infer(e, key.as_ref(), None).serde();
                given.map_or(Side::Lost(i), Side::Known)
            }
            _ => Side::Lost(i),
        };
        let side = key.clone().map_or(Side::Reported, Side::Known);
        if let (Some(key), Some(request)) = (key, request) {
            self.serdes.offload[i] = Some(OffloadSerdes {
                key,
                value: parked,
                request,
            });
        }
        (side, given)
    }
}
