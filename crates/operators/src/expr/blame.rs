//! Finds the part of an expression that failed.
//!
//! Takes an expression that failed for a record, and the record; returns the innermost part that fails
//! on its own, with its source line. Evaluation is pure, so the parts are evaluated once more, one after
//! the other, but only after a failure: records without errors pay nothing for it.

use super::compile::Node;
use stoatflow_core::{Record, Result};
use stoatflow_plan::Expression;
use stoatflow_plan::expression::render::located;

/// A part of an expression, with its own parts.
#[derive(Debug)]
pub(super) struct Part {
    node: Node,
    order: Order,
    /// `app.py:12 sf.value["a"] + 1`.
    text: String,
    parts: Vec<Part>,
}

/// The order in which the parts are evaluated.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// One after the other, until one fails.
    All,
    /// Likewise, and each must be a condition.
    Conditions,
    /// The first is a condition, which chooses one of the others.
    Choice,
}

impl Part {
    pub fn new(expression: &Expression) -> Result<Self> {
        Self::at(expression, None)
    }

    fn at(expression: &Expression, line: Option<&str>) -> Result<Self> {
        let line = expression.line().or(line);
        if let Expression::Located { args, .. } = expression {
            return Self::at(&args[0], line);
        }
        let parts = expression.args().iter();
        Ok(Self {
            node: Node::new(expression)?,
            order: match expression {
                Expression::When { .. } => Order::Choice,
                Expression::And { .. } | Expression::Or { .. } | Expression::Not { .. } => {
                    Order::Conditions
                }
                _ => Order::All,
            },
            text: located(expression, line),
            parts: parts
                .map(|part| Self::at(part, line))
                .collect::<Result<_>>()?,
        })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    fn fails(&self, record: &Record) -> bool {
        self.node.eval(record).is_err()
    }

    /// The part to blame: it fails, or is no condition where one is needed, and none of its own parts
    /// does.
    pub fn culprit(&self, record: &Record) -> &Self {
        let inner = match (self.order, self.parts.as_slice()) {
            (Order::Choice, [condition, then, otherwise]) => match condition.node.truth(record) {
                Ok(truth) => Some(if truth == Some(true) { then } else { otherwise })
                    .filter(|chosen| chosen.fails(record)),
                Err(_) => Some(condition),
            },
            (Order::Conditions, parts) => {
                parts.iter().find(|part| part.node.truth(record).is_err())
            }
            (_, parts) => parts.iter().find(|part| part.fails(record)),
        };
        inner.map_or(self, |inner| inner.culprit(record))
    }
}
