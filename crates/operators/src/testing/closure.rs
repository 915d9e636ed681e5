//! A foreign function that is a closure of the test.

use crate::testing::{text, word};
use crate::{Args, Failed, Udf};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use stoatflow_core::{Datum, Origin, Partition, Record, Result};

type Body = Box<dyn Fn(&[&Datum]) -> Result<Datum> + Send + Sync>;

/// A foreign function that is a closure. Lists stand for pairs and for many results.
pub(crate) struct Closure {
    body: Body,
    pub scopes: AtomicUsize,
    /// How many scopes are open.
    pub attached: AtomicUsize,
    pub calls: AtomicUsize,
    pub batches: AtomicUsize,
}

impl fmt::Debug for Closure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closure")
    }
}

pub(crate) fn closure(
    body: impl Fn(&[&Datum]) -> Result<Datum> + Send + Sync + 'static,
) -> Arc<Closure> {
    let zero = AtomicUsize::default;
    Arc::new(Closure {
        body: Box::new(body),
        scopes: zero(),
        attached: zero(),
        calls: zero(),
        batches: zero(),
    })
}

impl Closure {
    fn each(
        &self,
        args: Args,
        batch: &[Record],
        mut take: impl FnMut(Datum),
    ) -> Result<(), Failed> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        for (at, record) in batch.iter().enumerate() {
            let result = match args {
                Args::Value => (self.body)(&[&record.value]),
                Args::KeyValue => (self.body)(&[&record.key, &record.value]),
            };
            take(result.map_err(|error| Failed { at, error })?);
        }
        Ok(())
    }
}

fn pair(datum: Datum) -> (Datum, Datum) {
    match datum {
        Datum::List(items) => (items[0].clone(), items[1].clone()),
        other => panic!("a pair was expected, found {other:?}"),
    }
}

fn list(datum: Datum) -> Arc<[Datum]> {
    match datum {
        Datum::List(items) => items,
        other => panic!("a list was expected, found {other:?}"),
    }
}

impl Udf for Closure {
    fn name(&self) -> &str {
        "app.py:7 closure"
    }
    fn test(&self, args: Args, batch: &[Record], out: &mut Vec<bool>) -> Result<(), Failed> {
        self.each(args, batch, |datum| out.push(datum == Datum::Bool(true)))
    }
    fn one(&self, args: Args, batch: &[Record], out: &mut Vec<Datum>) -> Result<(), Failed> {
        self.each(args, batch, |datum| out.push(datum))
    }
    fn pair(
        &self,
        args: Args,
        batch: &[Record],
        out: &mut Vec<(Datum, Datum)>,
    ) -> Result<(), Failed> {
        self.each(args, batch, |datum| out.push(pair(datum)))
    }
    fn many(
        &self,
        args: Args,
        batch: &[Record],
        out: &mut Vec<Datum>,
        ends: &mut Vec<usize>,
    ) -> Result<(), Failed> {
        self.each(args, batch, |datum| {
            out.extend(list(datum).iter().cloned());
            ends.push(out.len());
        })
    }
    fn many_pairs(
        &self,
        args: Args,
        batch: &[Record],
        out: &mut Vec<(Datum, Datum)>,
        ends: &mut Vec<usize>,
    ) -> Result<(), Failed> {
        self.each(args, batch, |datum| {
            out.extend(list(datum).iter().cloned().map(pair));
            ends.push(out.len());
        })
    }
    fn effect(&self, args: Args, batch: &[Record]) -> Result<(), Failed> {
        self.each(args, batch, drop)
    }
    fn topics(
        &self,
        batch: &[Record],
        topic_of: &dyn Fn(&Origin) -> Option<String>,
        out: &mut Vec<Arc<str>>,
    ) -> Result<(), Failed> {
        for (at, record) in batch.iter().enumerate() {
            let read = topic_of(&record.origin).map_or(Datum::Null, |topic| text(&topic));
            match (self.body)(&[&record.key, &record.value, &read]) {
                Ok(Datum::Str(topic)) => out.push(topic.as_str().into()),
                Ok(_) => panic!("a topic was expected"),
                Err(error) => return Err(Failed { at, error }),
            }
        }
        Ok(())
    }
    /// With headers, it gets a text of their names.
    fn partitions(
        &self,
        batch: &[Record],
        with_headers: bool,
        to: &[(Arc<str>, u32)],
        out: &mut Vec<crate::Partitions>,
    ) -> Result<(), Failed> {
        for (at, (record, (topic, count))) in batch.iter().zip(to).enumerate() {
            let count = Datum::Int(i64::from(*count));
            let headers = record.headers.iter().flat_map(|headers| headers.iter());
            let names: Vec<&str> = headers.map(|header| &*header.name).collect();
            let (topic, names) = (text(topic), text(&names.join(",")));
            let found = if with_headers {
                (self.body)(&[&topic, &names, &record.key, &record.value, &count])
            } else {
                (self.body)(&[&topic, &record.key, &record.value, &count])
            };
            let number = |datum: &Datum| match datum {
                Datum::Int(number) => Partition(i32::try_from(*number).unwrap()),
                other => panic!("a partition was expected, found {other:?}"),
            };
            out.push(match found.map_err(|error| Failed { at, error })? {
                Datum::Null => None,
                Datum::List(items) => Some(items.iter().map(number).collect()),
                one => Some(vec![number(&one)]),
            });
        }
        Ok(())
    }
    /// As a late policy it gets value, topic and watermark; a word that names no policy is a topic.
    fn late(
        &self,
        batch: &[Record],
        topic: &str,
        watermark: i64,
        out: &mut Vec<stoatflow_core::Late>,
    ) -> Result<(), Failed> {
        use stoatflow_core::Late;
        self.batches.fetch_add(1, Ordering::Relaxed);
        let (topic, watermark) = (text(topic), Datum::Int(watermark));
        for (at, record) in batch.iter().enumerate() {
            let said = (self.body)(&[&record.value, &topic, &watermark]);
            let said = said.map_err(|error| Failed { at, error })?;
            out.push(match word(&said).as_str() {
                "grace" => Late::Grace,
                "drop" => Late::Drop,
                other => Late::Dlq(other.into()),
            });
        }
        Ok(())
    }
    fn call(&self, arguments: &[&Datum]) -> Result<Datum> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        (self.body)(arguments)
    }
    /// As a handler it gets message and attempt, and returns the word of a setting.
    fn decide(
        &self,
        failure: &crate::support::error_policy::Failure<'_>,
    ) -> Result<stoatflow_core::Handler> {
        let attempt = Datum::Int(i64::from(failure.attempt));
        let said = (self.body)(&[&text(failure.error.message()), &attempt])?;
        Ok(match word(&said).as_str() {
            "again" => stoatflow_core::Handler::Retry(Box::new(stoatflow_core::RetryHandler {
                times: u32::MAX,
                backoff_ms: 0,
                then: stoatflow_core::Handler::Fail,
            })),
            other => stoatflow_core::Handler::of_setting(other).expect("a handler's word"),
        })
    }
    fn scope(&self, body: &mut dyn FnMut()) {
        self.scopes.fetch_add(1, Ordering::Relaxed);
        self.attached.fetch_add(1, Ordering::Relaxed);
        body();
        self.attached.fetch_sub(1, Ordering::Relaxed);
    }
}
