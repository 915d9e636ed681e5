//! The metrics of Kafka Streams that have the same meaning here, under the names of the Prometheus JMX
//! exporter.
//!
//! The metrics page of the documentation is generated from this table.

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FamilyKind {
    /// The sample's name ends in `_total`.
    Counter,
    Gauge,
}

/// A metric of Kafka Streams.
#[derive(Debug)]
pub(super) struct EquivalentMetric {
    pub(super) name: &'static str,
    pub(super) kind: FamilyKind,
    /// Our metrics that it is computed from.
    pub(super) ours: &'static str,
    pub(super) meaning: &'static str,
}

const fn metric(
    name: &'static str,
    kind: FamilyKind,
    ours: &'static str,
    meaning: &'static str,
) -> EquivalentMetric {
    EquivalentMetric {
        name,
        kind,
        ours,
        meaning,
    }
}

use FamilyKind::{Counter, Gauge};

pub(super) const KAFKA_STREAMS_METRICS: &[EquivalentMetric] = &[
    metric(
        "kafka_streams_stream_metrics",
        Gauge,
        "stoatflow_state, stoatflow_build_info",
        "Always 1; the label is the text of state, application_id, version or alive_stream_threads",
    ),
    metric(
        "kafka_streams_stream_metrics_client_state",
        Gauge,
        "stoatflow_state",
        "The state by its number: 0 CREATED, 1 REBALANCING (starting, restoring), 2 RUNNING (or paused), 3 \
            PENDING_SHUTDOWN, 4 NOT_RUNNING, 6 ERROR",
    ),
    metric(
        "kafka_streams_stream_metrics_alive_stream_threads",
        Gauge,
        "stoatflow_lane_working",
        "How many lanes there are while it starts, restores and runs, else 0",
    ),
    metric(
        "kafka_streams_stream_thread_metrics_process_total",
        Counter,
        "stoatflow_lane_records_total",
        "Records that a lane took, again behind each new key, as Kafka Streams reads them again from a \
            repartition topic",
    ),
    metric(
        "kafka_streams_stream_thread_metrics_process_rate",
        Gauge,
        "stoatflow_lane_records_total",
        "The same, a second",
    ),
    metric(
        "kafka_streams_stream_thread_metrics_commit_total",
        Counter,
        "stoatflow_commits_total",
        "Commits, all by one thread",
    ),
    metric(
        "kafka_streams_stream_thread_metrics_commit_rate",
        Gauge,
        "stoatflow_commits_total",
        "The same, a second",
    ),
    metric(
        "kafka_streams_stream_thread_metrics_commit_latency_avg",
        Gauge,
        "stoatflow_last_commit_seconds",
        "How long commits take, in ms: the broker's part and the local store's, without waiting for lanes",
    ),
    metric(
        "kafka_streams_stream_thread_metrics_commit_latency_max",
        Gauge,
        "stoatflow_last_commit_seconds",
        "The longest of them",
    ),
    metric(
        "kafka_streams_stream_task_metrics_dropped_records_total",
        Counter,
        "stoatflow_dropped_records_total",
        "Records left out, without those of what Kafka Streams has not: duplicates, ticks, answers of \
            workers",
    ),
    metric(
        "kafka_streams_stream_task_metrics_dropped_records_rate",
        Gauge,
        "stoatflow_dropped_records_total",
        "The same, a second",
    ),
    metric(
        "kafka_streams_stream_task_metrics_restore_remaining_records_total",
        Gauge,
        "stoatflow_restore_records, stoatflow_restore_records_done",
        "Changelog records that are left to be restored",
    ),
    metric(
        "kafka_streams_stream_processor_node_metrics_process_total",
        Counter,
        "stoatflow_node_records_total",
        "Records that a source node took",
    ),
    metric(
        "kafka_streams_stream_processor_node_metrics_process_rate",
        Gauge,
        "stoatflow_node_records_total",
        "The same, a second",
    ),
    metric(
        "kafka_streams_stream_state_metrics_estimate_num_keys",
        Gauge,
        "stoatflow_store_keys",
        "RocksDB's estimate of the keys of a store on disk",
    ),
    metric(
        "kafka_streams_stream_state_metrics_live_sst_files_size",
        Gauge,
        "stoatflow_store_disk_bytes",
        "Bytes of the files of a store on disk",
    ),
    metric(
        "kafka_streams_stream_state_metrics_cur_size_all_mem_tables",
        Gauge,
        "stoatflow_store_memory_bytes",
        "Bytes of a store on disk that are still in memory",
    ),
    metric(
        "kafka_consumer_consumer_fetch_manager_metrics_records_lag",
        Gauge,
        "stoatflow_partition_position",
        "Readable records of a partition that are not taken yet",
    ),
    metric(
        "kafka_consumer_consumer_fetch_manager_metrics_records_consumed_total",
        Counter,
        "stoatflow_records_in_total",
        "Input records taken",
    ),
    metric(
        "kafka_consumer_consumer_fetch_manager_metrics_records_consumed_rate",
        Gauge,
        "stoatflow_records_in_total",
        "The same, a second",
    ),
    metric(
        "kafka_producer_producer_metrics_record_send_total",
        Counter,
        "stoatflow_records_out_total, stoatflow_changelog_records_total",
        "Output and changelog records handed to the producer",
    ),
    metric(
        "kafka_producer_producer_metrics_record_send_rate",
        Gauge,
        "stoatflow_records_out_total, stoatflow_changelog_records_total",
        "The same, a second",
    ),
    metric(
        "kafka_producer_producer_metrics_request_total",
        Counter,
        "stoatflow_client_requests_total",
        "The producer's requests; native client only",
    ),
    metric(
        "kafka_producer_producer_metrics_request_rate",
        Gauge,
        "stoatflow_client_requests_total",
        "The same, a second",
    ),
    metric(
        "kafka_producer_producer_metrics_outgoing_byte_total",
        Counter,
        "stoatflow_client_sent_bytes_total",
        "Bytes of the producer's requests; native client only",
    ),
    metric(
        "kafka_producer_producer_metrics_outgoing_byte_rate",
        Gauge,
        "stoatflow_client_sent_bytes_total",
        "The same, a second",
    ),
    metric(
        "kafka_producer_producer_metrics_incoming_byte_total",
        Counter,
        "stoatflow_client_received_bytes_total",
        "Bytes of answers to the producer's requests; native client only",
    ),
    metric(
        "kafka_producer_producer_metrics_incoming_byte_rate",
        Gauge,
        "stoatflow_client_received_bytes_total",
        "The same, a second",
    ),
    metric(
        "kafka_producer_producer_metrics_connection_count",
        Gauge,
        "stoatflow_client_connections",
        "The producer's open connections; native client only",
    ),
    metric(
        "kafka_producer_producer_metrics_connection_creation_total",
        Counter,
        "stoatflow_client_connections_opened_total",
        "Connections opened; native client only",
    ),
    metric(
        "kafka_producer_producer_metrics_connection_close_total",
        Counter,
        "stoatflow_client_connections_closed_total",
        "Connections closed; native client only",
    ),
    metric(
        "kafka_consumer_consumer_metrics_request_total",
        Counter,
        "stoatflow_client_requests_total",
        "The consumer's requests; native client only",
    ),
    metric(
        "kafka_consumer_consumer_metrics_request_rate",
        Gauge,
        "stoatflow_client_requests_total",
        "The same, a second",
    ),
    metric(
        "kafka_consumer_consumer_metrics_outgoing_byte_total",
        Counter,
        "stoatflow_client_sent_bytes_total",
        "Bytes of the consumer's requests; native client only",
    ),
    metric(
        "kafka_consumer_consumer_metrics_outgoing_byte_rate",
        Gauge,
        "stoatflow_client_sent_bytes_total",
        "The same, a second",
    ),
    metric(
        "kafka_consumer_consumer_metrics_incoming_byte_total",
        Counter,
        "stoatflow_client_received_bytes_total",
        "Bytes of answers to the consumer's requests; native client only",
    ),
    metric(
        "kafka_consumer_consumer_metrics_incoming_byte_rate",
        Gauge,
        "stoatflow_client_received_bytes_total",
        "The same, a second",
    ),
    metric(
        "kafka_consumer_consumer_metrics_connection_count",
        Gauge,
        "stoatflow_client_connections",
        "The consumer's open connections; native client only",
    ),
    metric(
        "kafka_consumer_consumer_metrics_connection_creation_total",
        Counter,
        "stoatflow_client_connections_opened_total",
        "Connections opened; native client only",
    ),
    metric(
        "kafka_consumer_consumer_metrics_connection_close_total",
        Counter,
        "stoatflow_client_connections_closed_total",
        "Connections closed; native client only",
    ),
    metric(
        "kafka_admin_client_admin_client_metrics_request_total",
        Counter,
        "stoatflow_client_requests_total",
        "The admin client's requests; native client only",
    ),
    metric(
        "kafka_admin_client_admin_client_metrics_request_rate",
        Gauge,
        "stoatflow_client_requests_total",
        "The same, a second",
    ),
    metric(
        "kafka_admin_client_admin_client_metrics_outgoing_byte_total",
        Counter,
        "stoatflow_client_sent_bytes_total",
        "Bytes of the admin client's requests; native client only",
    ),
    metric(
        "kafka_admin_client_admin_client_metrics_outgoing_byte_rate",
        Gauge,
        "stoatflow_client_sent_bytes_total",
        "The same, a second",
    ),
    metric(
        "kafka_admin_client_admin_client_metrics_incoming_byte_total",
        Counter,
        "stoatflow_client_received_bytes_total",
        "Bytes of answers to the admin client's requests; native client only",
    ),
    metric(
        "kafka_admin_client_admin_client_metrics_incoming_byte_rate",
        Gauge,
        "stoatflow_client_received_bytes_total",
        "The same, a second",
    ),
    metric(
        "kafka_admin_client_admin_client_metrics_connection_count",
        Gauge,
        "stoatflow_client_connections",
        "The admin client's open connections; native client only",
    ),
    metric(
        "kafka_admin_client_admin_client_metrics_connection_creation_total",
        Counter,
        "stoatflow_client_connections_opened_total",
        "Connections opened; native client only",
    ),
    metric(
        "kafka_admin_client_admin_client_metrics_connection_close_total",
        Counter,
        "stoatflow_client_connections_closed_total",
        "Connections closed; native client only",
    ),
    metric(
        "kafka_producer_producer_metrics_request_latency_avg",
        Gauge,
        "stoatflow_client_request_duration_seconds",
        "How long answers to Produce requests take, in ms; native client only",
    ),
    metric(
        "kafka_consumer_consumer_fetch_manager_metrics_fetch_total",
        Counter,
        "stoatflow_client_requests_total",
        "Fetch requests; native client only",
    ),
    metric(
        "kafka_consumer_consumer_fetch_manager_metrics_fetch_rate",
        Gauge,
        "stoatflow_client_requests_total",
        "The same, a second",
    ),
    metric(
        "kafka_consumer_consumer_fetch_manager_metrics_fetch_latency_avg",
        Gauge,
        "stoatflow_client_request_duration_seconds",
        "How long answers to Fetch requests take, in ms, with the wait for records; native client only",
    ),
];
