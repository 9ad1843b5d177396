//! The clocks of an answer, and what is told of one that broke off, on paused time.

use std::{collections::VecDeque, time::Duration};

use angelia_executors::native::{
    answer_reader::{
        AnswerClocks, AnswerHead, AnswerOutcome, AnswerReader, ByteSource, StreamDrop,
    },
    provider::{AnswerDecoder, AnswerPart, Api, ErrorClass, ProviderEvent},
};
use bytes::Bytes;
use tokio::time::{Instant, sleep};

use crate::material::{CHAT_ANSWER, MESSAGES_ANSWER, RESPONSES_ANSWER, chunks, named};

const CLOCKS: AnswerClocks = AnswerClocks {
    first_event: Duration::from_mins(1),
    silence: Duration::from_mins(2),
    connection: Duration::from_secs(90),
};

/// What a scripted server does next.
#[derive(Clone)]
enum Act {
    Wait(u64),
    Send(String),
    Break(&'static str),
}

struct Script(VecDeque<Act>);

impl ByteSource for Script {
    async fn next_bytes(&mut self) -> Result<Option<Bytes>, Vec<String>> {
        loop {
            match self.0.front().cloned() {
                None => return Ok(None),
                Some(Act::Wait(seconds)) => {
                    sleep(Duration::from_secs(seconds)).await;
                    self.0.pop_front();
                }
                Some(Act::Send(text)) => {
                    self.0.pop_front();
                    return Ok(Some(text.into()));
                }
                Some(Act::Break(cause)) => {
                    return Err(vec!["error reading the body".to_owned(), cause.to_owned()]);
                }
            }
        }
    }
}

fn answers() -> [(Api, Vec<String>); 3] {
    let frames = |frames: &[&str], write: fn(&[&str]) -> String| {
        frames.iter().map(|frame| write(&[frame])).collect()
    };
    [
        (Api::Messages, frames(MESSAGES_ANSWER, named)),
        (Api::Chat, frames(CHAT_ANSWER, chunks)),
        (Api::Responses, frames(RESPONSES_ANSWER, named)),
    ]
}

async fn read(
    api: Api,
    acts: impl IntoIterator<Item = Act>,
) -> (AnswerOutcome, Vec<ProviderEvent>) {
    read_form(api, false, acts).await
}

async fn read_form(
    api: Api,
    is_document: bool,
    acts: impl IntoIterator<Item = Act>,
) -> (AnswerOutcome, Vec<ProviderEvent>) {
    let head = AnswerHead { status: 200, request_id: Some("req_1".to_owned()), is_document };
    let mut events = Vec::new();
    let script = Script(acts.into_iter().collect());
    let mut answer = AnswerReader::new(script, AnswerDecoder::new(api, 7), head, CLOCKS);
    while let Some(batch) = answer.next().await {
        events.extend(batch);
    }
    (answer.finish(), events)
}

fn dropped(outcome: AnswerOutcome) -> StreamDrop {
    match outcome {
        AnswerOutcome::Dropped(drop) => drop,
        other => panic!("not dropped: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_read_to_its_end() {
    for (api, frames) in answers() {
        // Longer than any clock in sum, but each frame in time.
        let acts = frames.into_iter().flat_map(|frame| [Act::Wait(50), Act::Send(frame)]);
        let (outcome, events) = read(api, acts).await;
        assert_eq!(outcome, AnswerOutcome::Whole, "{api:?}");
        assert!(matches!(events.last(), Some(ProviderEvent::Stop(_))), "{api:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_last_frame_nothing_is_waited_for() {
    for (api, frames) in answers() {
        let begun = Instant::now();
        let acts = frames.into_iter().map(Act::Send).chain([Act::Wait(3600)]);
        assert_eq!(read(api, acts).await.0, AnswerOutcome::Whole, "{api:?}");
        assert_eq!(begun.elapsed(), Duration::ZERO, "{api:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_is_described() {
    for (api, frames) in answers() {
        let call = frames.iter().position(|frame| frame.contains("path")).unwrap();
        let sent: Vec<String> = frames[..=call].to_vec();
        let bytes: usize = sent.iter().map(String::len).sum();
        let acts = [Act::Wait(3)].into_iter().chain(sent.iter().cloned().map(Act::Send));
        let acts = acts.chain([Act::Wait(4), Act::Break("connection reset by peer")]);
        let (outcome, events) = read(api, acts).await;
        let drop = dropped(outcome);
        let expected = StreamDrop {
            status: 200,
            request_id: Some("req_1".to_owned()),
            provider_id: drop.provider_id.clone(),
            bytes: bytes as u64,
            frames: sent.len() as u64,
            ttfb: Some(Duration::from_secs(3)),
            elapsed: Duration::from_secs(7),
            cause: vec!["error reading the body".into(), "connection reset by peer".into()],
            in_tool_call: true,
            has_shown_text: true,
        };
        assert_eq!(drop, expected, "{api:?}");
        assert!(drop.provider_id.is_some(), "{api:?}");
        let is_call =
            |event: &ProviderEvent| matches!(event, ProviderEvent::Part(AnswerPart::Call(_)));
        assert!(!events.iter().any(is_call), "{api:?}: a cut call must not be run");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_without_its_last_frame_is_dropped() {
    for (api, frames) in answers() {
        let acts = frames[..3].iter().cloned().map(Act::Send);
        let drop = dropped(read(api, acts).await.0);
        assert_eq!(drop.cause, ["the stream ended without its last frame"], "{api:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn keep_alives_keep_the_connection_and_not_the_model() {
    let pings = [
        (Api::Messages, named(&[r#"{"type":"ping"}"#])),
        (Api::Chat, ": keep-alive\n\n".to_owned()),
        (Api::Responses, ": PROCESSING\n\n".to_owned()),
    ];
    for (api, ping) in pings {
        let flood = || (0..100).flat_map(|_| [Act::Wait(10), Act::Send(ping.clone())]);
        let drop = dropped(read(api, flood()).await.0);
        assert_eq!(drop.cause, ["the model did not begin in time"], "{api:?}");
        assert_eq!(drop.elapsed, CLOCKS.first_event, "{api:?}");

        let (_, frames) = answers().into_iter().find(|(other, _)| *other == api).unwrap();
        let begun = frames[..5].iter().cloned().map(Act::Send);
        let drop = dropped(read(api, begun.chain(flood())).await.0);
        assert_eq!(drop.cause, ["the model said nothing for too long"], "{api:?}");
        assert_eq!(drop.elapsed, CLOCKS.silence, "{api:?}");

        let begun = frames[..5].iter().cloned().map(Act::Send);
        let drop = dropped(read(api, begun.chain([Act::Wait(3600)])).await.0);
        assert_eq!(drop.cause, ["the connection was silent for too long"], "{api:?}");
        assert_eq!(drop.elapsed, CLOCKS.connection, "{api:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_inside_an_answer_is_the_providers_own() {
    let overloaded =
        named(&[r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#]);
    let first = named(&MESSAGES_ANSWER[..1]);
    let acts = [Act::Send(first), Act::Send(overloaded), Act::Wait(3600)];
    let AnswerOutcome::Failed(error, drop) = read(Api::Messages, acts).await.0 else { panic!() };
    assert_eq!((error.class, drop.elapsed), (ErrorClass::Overloaded, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_document_that_never_ends_is_broken_off() {
    const MIB: usize = 1024 * 1024;
    for api in Api::ALL {
        let endless = std::iter::repeat_n(Act::Send(" ".repeat(MIB)), 70);
        let (outcome, events) = read_form(api, true, endless).await;
        let drop = dropped(outcome);
        assert_eq!(drop.cause, ["the answer is too long"]);
        assert!(drop.bytes <= 65 * MIB as u64, "{} bytes were read", drop.bytes);
        assert!(!events.iter().any(|event| matches!(event, ProviderEvent::Part(_))));
    }
}
