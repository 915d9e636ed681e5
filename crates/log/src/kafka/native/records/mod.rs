//! Record batches: written for a request, read from a response.

pub(in crate::kafka) mod batch_reader;
pub(in crate::kafka) mod batch_writer;
pub(in crate::kafka) mod compression;
