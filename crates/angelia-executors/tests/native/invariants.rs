//! What holds for any input; shared with the fuzz targets.

use angelia_executors::native::{
    arguments::{RepairKind, repair_arguments},
    provider::{AnswerDecoder, AnswerPart, Api, ProviderEvent},
};

/// Decodes a stream whose bytes arrive in reads of these sizes, again and again.
pub(crate) fn decode_in_reads(api: Api, bytes: &[u8], sizes: &[usize]) -> Vec<ProviderEvent> {
    let mut decoder = AnswerDecoder::new(api, 7);
    let mut events = Vec::new();
    let mut rest = bytes;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().map_or(rest.len(), |size| (*size).clamp(1, rest.len()));
        decoder.feed(&rest[..size], &mut events);
        rest = &rest[size..];
    }
    decoder.end(&mut events);
    events
}

/// Checks a decoder with any bytes: they end, the cuts do not matter, and the events agree with each
/// other.
pub(crate) fn check_answer(bytes: &[u8], sizes: &[usize]) {
    for api in Api::ALL {
        let whole = decode_in_reads(api, bytes, &[]);
        let cut = decode_in_reads(api, bytes, sizes);
        assert_eq!(format!("{whole:?}"), format!("{cut:?}"), "{api:?}");
        check_events(api, &whole);
        let mut decoder = AnswerDecoder::new(api, 7);
        let mut document = Vec::new();
        decoder.decode_document(&String::from_utf8_lossy(bytes), &mut document);
        decoder.end(&mut document);
        check_events(api, &document);
    }
}

/// Checks that the model stops at most once and last, and that text which was shown is in a whole
/// part. Only a finished item of the Responses API may correct what was shown.
pub(crate) fn check_events(api: Api, events: &[ProviderEvent]) {
    let stops = events.iter().filter(|event| matches!(event, ProviderEvent::Stop(_))).count();
    assert!(stops <= 1, "{events:?}");
    if stops == 1 {
        assert!(matches!(events.last(), Some(ProviderEvent::Stop(_))), "{events:?}");
    }
    let mut shown = String::new();
    let mut whole = String::new();
    for event in events {
        match event {
            ProviderEvent::TextDelta(text) => shown.push_str(text),
            ProviderEvent::Part(AnswerPart::Text(text)) => whole.push_str(text),
            _ => {}
        }
    }
    match api {
        Api::Responses => assert_eq!(shown.is_empty(), whole.is_empty(), "{events:?}"),
        // Blocks may be written side by side and end in another order.
        Api::Messages | Api::Chat => assert_eq!(sorted(&shown), sorted(&whole), "{events:?}"),
    }
}

fn sorted(text: &str) -> Vec<char> {
    let mut characters: Vec<char> = text.chars().collect();
    characters.sort_unstable();
    characters
}

/// Checks that the repair of any text gives an object or refuses, and never makes one up.
pub(crate) fn check_arguments(text: &str) {
    for was_cut in [false, true] {
        let Ok(repaired) = repair_arguments(text, was_cut) else { continue };
        let object: serde_json::Value = serde_json::from_str(repaired.object.get()).unwrap();
        assert!(object.is_object(), "{text:?}");
        if let Ok(strict) = serde_json::from_str::<serde_json::Value>(text)
            && strict.is_object()
        {
            assert_eq!(object, strict, "{text:?}");
            assert!(repaired.repairs.is_empty(), "{text:?}");
        }
        assert!(!was_cut || repaired.repairs.is_empty(), "{text:?}");
        if object.as_object().is_some_and(serde_json::Map::is_empty) {
            let is_empty = repaired.repairs.contains(&RepairKind::Empty);
            assert!(is_empty || text.contains('{'), "{text:?}");
        }
        // What was repaired needs no repair.
        let again = repair_arguments(repaired.object.get(), false).unwrap();
        assert!(again.repairs.is_empty(), "{text:?}");
    }
}
