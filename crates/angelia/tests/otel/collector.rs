//! A collector on loopback: receives OTLP over HTTP and decodes it by OpenTelemetry's own types.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message as _;

/// A span, with the attributes of the service that sent it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) service: BTreeMap<String, Value>,
    pub(crate) attributes: BTreeMap<String, Value>,
    pub(crate) span: Span,
}

impl ReceivedSpan {
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.attributes.get(name) {
            Some(Value::StringValue(text)) => text,
            other => panic!("{name} is {other:?} in {self:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn integer(&self, name: &str) -> i64 {
        match self.attributes.get(name) {
            Some(Value::IntValue(number)) => *number,
            other => panic!("{name} is {other:?} in {self:?}"),
        }
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_nanos(self.span.end_time_unix_nano - self.span.start_time_unix_nano)
    }
}

pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

#[derive(Clone, Debug)]
struct ReceivedRequest {
    head: String,
    body: Vec<u8>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let received = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                received.lock().unwrap().push(receive(stream));
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns every span that has arrived.
    pub(crate) fn spans(&self) -> Vec<ReceivedSpan> {
        let requests = self.requests.lock().unwrap().clone();
        requests.iter().flat_map(decode).collect()
    }

    /// Returns whether any request contains these words.
    pub(crate) fn has_seen(&self, words: &str) -> bool {
        let requests = self.requests.lock().unwrap();
        let mut bodies = requests.iter().map(|request| &request.body);
        bodies.any(|body| body.windows(words.len()).any(|part| part == words.as_bytes()))
    }
}

/// Reads one request and accepts it.
fn receive(stream: TcpStream) -> ReceivedRequest {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "half a request: {head}");
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let accepted = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    reader.get_mut().write_all(accepted).unwrap();
    ReceivedRequest { head, body }
}

fn decode(request: &ReceivedRequest) -> Vec<ReceivedSpan> {
    assert!(request.head.starts_with("post /v1/traces http/1.1\r\n"), "{}", request.head);
    assert!(request.head.contains("content-type: application/x-protobuf"), "{}", request.head);
    let export = ExportTraceServiceRequest::decode(&*request.body).unwrap();
    let mut spans = Vec::new();
    for resource in export.resource_spans {
        let service = attributes(resource.resource.unwrap().attributes);
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            let attributes = attributes(span.attributes.clone());
            spans.push(ReceivedSpan { service: service.clone(), attributes, span });
        }
    }
    spans
}

fn attributes(list: Vec<KeyValue>) -> BTreeMap<String, Value> {
    list.into_iter().map(|pair| (pair.key, pair.value.unwrap().value.unwrap())).collect()
}
