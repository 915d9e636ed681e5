//! Passes one record to librdkafka.
//!
//! Takes a record and a client, which copies it. Uses `produceva` because the batch call can carry
//! neither timestamps nor headers.

use super::client::RdKafkaError;
use crate::ProducerRecord;
use crate::kafka::partitioner::Label;
use rdkafka_sys as sys;
use std::ffi::c_void;
use std::ptr;
use stoatflow_core::{Error, Result};

use sys::rd_kafka_vtype_t as Tag;

/// librdkafka's "let the partitioner decide" (a C macro that has no binding).
const ANY_PARTITION: i32 = -1;

/// About how many bytes a record takes in a request.
pub(in crate::kafka) fn weight(record: &ProducerRecord) -> usize {
    const REST: usize = 64;
    let size = |part: &Option<bytes::Bytes>| part.as_ref().map_or(0, bytes::Bytes::len);
    let headers = record.headers.as_ref().map_or(0, |headers| {
        (headers.iter())
            .map(|header| header.name.len() + size(&header.value) + 4)
            .sum()
    });
    REST + size(&record.key) + size(&record.value) + headers
}

/// The headers of a record as librdkafka's, or null.
pub(in crate::kafka) fn headers(record: &ProducerRecord) -> Result<*mut sys::rd_kafka_headers_t> {
    let Some(headers) = record.headers.as_ref().filter(|h| !h.is_empty()) else {
        return Ok(ptr::null_mut());
    };
    // SAFETY: names and values live as long as the calls, which copy them.
    unsafe {
        let native = sys::rd_kafka_headers_new(headers.len());
        for header in headers.iter() {
            let (value, size) = header
                .value
                .as_ref()
                .map_or((ptr::null(), 0), |v| (v.as_ptr(), v.len()));
            let name_size = header.name.len().cast_signed();
            let code = sys::rd_kafka_header_add(
                native,
                header.name.as_ptr().cast(),
                name_size,
                value.cast(),
                size.cast_signed(),
            );
            if code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                sys::rd_kafka_headers_destroy(native);
                return Err(Error::serde(format!(
                    "the header '{}' can't be written",
                    header.name
                )));
            }
        }
        Ok(native)
    }
}

/// Passes one record to the client.
///
/// # Safety
/// Client and topic are alive; `headers` is null or ours to pass on.
pub(in crate::kafka) unsafe fn produce(
    rk: *mut sys::rd_kafka_t,
    topic: *mut sys::rd_kafka_topic_t,
    label: Label,
    record: &ProducerRecord,
    headers: *mut sys::rd_kafka_headers_t,
) -> Option<RdKafkaError> {
    type Union = sys::rd_kafka_vu_s__bindgen_ty_1;
    let mem = |part: &Option<bytes::Bytes>| {
        let (ptr, size) = part.as_ref().map_or((ptr::null_mut(), 0), |b| {
            (b.as_ptr().cast_mut().cast::<c_void>(), b.len())
        });
        Union {
            mem: sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr, size },
        }
    };
    let row = |vtype, u| sys::rd_kafka_vu_t { vtype, u };
    let rows = [
        row(Tag::RD_KAFKA_VTYPE_RKT, Union { rkt: topic }),
        row(
            Tag::RD_KAFKA_VTYPE_PARTITION,
            Union {
                i32_: record.partition.map_or(ANY_PARTITION, |p| p.0),
            },
        ),
        row(
            Tag::RD_KAFKA_VTYPE_MSGFLAGS,
            Union {
                i: sys::RD_KAFKA_MSG_F_COPY,
            },
        ),
        row(Tag::RD_KAFKA_VTYPE_KEY, mem(&record.key)),
        row(Tag::RD_KAFKA_VTYPE_VALUE, mem(&record.value)),
        row(
            Tag::RD_KAFKA_VTYPE_TIMESTAMP,
            Union {
                i64_: record.timestamp.0,
            },
        ),
        row(Tag::RD_KAFKA_VTYPE_OPAQUE, Union { ptr: label.pack() }),
        row(Tag::RD_KAFKA_VTYPE_HEADERS, Union { headers }),
    ];
    let count = if headers.is_null() {
        rows.len() - 1
    } else {
        rows.len()
    };
    // SAFETY: the caller's promise; the rows and what they point to live as long as the call.
    unsafe { RdKafkaError::take(sys::rd_kafka_produceva(rk, rows.as_ptr(), count)) }
}
