//! Decodes the frames of a Responses answer into events.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    super::{
        AnswerPart, ProviderError, ProviderEvent, ReasoningSeal, ReportedTokens, StopReason,
        event::push_delta,
        frame_json::{read_frame, unknown_frame},
        stream::made_call_id,
    },
    items::{ItemContent, OpenItem},
    wire::{OutputItem, ResponseObject, ResponsesFrame, ResponsesUsage},
};

/// Frames that only repeat what others say.
const SILENT_FRAMES: [&str; 9] = [
    "response.content_part.added",
    "response.content_part.done",
    "response.output_text.done",
    "response.refusal.done",
    "response.function_call_arguments.done",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done",
    "response.reasoning_summary_text.done",
    "response.reasoning_text.done",
];

#[derive(Debug, Default)]
pub struct ResponsesDecoder {
    place: u64,
    begun: bool,
    /// Items that have begun and not ended.
    open: Vec<OpenItem>,
    /// Items that ended before one with a lower index.
    waiting: BTreeMap<u64, ItemContent>,
    /// The index of the next item to report.
    next_index: u64,
    /// The number of reported items.
    reported: usize,
    calls: usize,
    stop: Option<StopReason>,
    ended: bool,
}

impl ResponsesDecoder {
    pub(in super::super) fn new(place: u64) -> Self {
        Self { place, ..Self::default() }
    }

    pub(in super::super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(in super::super) fn decode_frame(
        &mut self,
        name: &str,
        data: &str,
        out: &mut Vec<ProviderEvent>,
    ) {
        if data.trim() == "[DONE]" {
            self.ended = true;
            return;
        }
        let was_read = read_frame(data, |text| {
            let frame: ResponsesFrame<'_> = serde_json::from_str(text)?;
            let kind = frame.kind.as_str().unwrap_or(name).to_owned();
            self.handle_frame(&kind, text, &frame, out);
            Ok(())
        });
        if !was_read {
            out.push(unknown_frame(name, data));
        }
    }

    pub(in super::super) fn decode_document(&mut self, body: &str, out: &mut Vec<ProviderEvent>) {
        let was_read = read_frame(body, |text| {
            let response: ResponseObject<'_> = serde_json::from_str(text)?;
            self.begin(&response, out);
            self.finish(&response, text, out);
            Ok(())
        });
        if !was_read {
            out.push(unknown_frame("document", body));
        }
    }

    pub(in super::super) fn end(mut self, out: &mut Vec<ProviderEvent>) {
        let was_cut = self.stop.is_none();
        self.report_waiting(out);
        for item in std::mem::take(&mut self.open) {
            if !(was_cut && matches!(item.content, ItemContent::Call { .. })) {
                self.report(item.content, out);
            }
        }
        let stop = self.stop.map(|stop| stop.with_calls(self.calls > 0));
        out.extend(stop.map(ProviderEvent::Stop));
    }

    fn handle_frame(
        &mut self,
        kind: &str,
        text: &str,
        frame: &ResponsesFrame<'_>,
        out: &mut Vec<ProviderEvent>,
    ) {
        match kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                if let Some(response) = &frame.response.0 {
                    self.begin(response, out);
                }
            }
            "response.output_item.added" => {
                if let Some(item) = &frame.item.0
                    && let Some(content) = ItemContent::of(item)
                {
                    if let ItemContent::Call { name, .. } = &content {
                        out.push(ProviderEvent::CallBegin { name: name.as_str().into() });
                    }
                    let id = item.id.as_str().map(str::to_owned);
                    let index = frame.output_index.get();
                    self.open.push(OpenItem { index, id, content, paragraph: 0 });
                } else {
                    out.push(unknown_frame(kind, text));
                }
            }
            "response.output_item.done" => {
                let item = frame.item.0.as_ref();
                match item.and_then(|item| ItemContent::of(item).map(|content| (item, content))) {
                    Some((item, content)) => self.end_item(frame, item, content, out),
                    None => out.push(unknown_frame(kind, text)),
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                self.ended = true;
                match &frame.response.0 {
                    Some(response) => self.finish(response, text, out),
                    None => out.push(unknown_frame(kind, text)),
                }
            }
            "error" => {
                self.ended = true;
                out.push(ProviderEvent::Error(ProviderError::from_frame(text)));
            }
            "keepalive" | "ping" => out.push(ProviderEvent::KeepAlive),
            silent if SILENT_FRAMES.contains(&silent) => {}
            other => self.handle_delta(other, text, frame, out),
        }
    }

    fn handle_delta(
        &mut self,
        kind: &str,
        text: &str,
        frame: &ResponsesFrame<'_>,
        out: &mut Vec<ProviderEvent>,
    ) {
        let new = String::new;
        let fresh = match kind {
            "response.output_text.delta" | "response.refusal.delta" => ItemContent::Text(new()),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                ItemContent::Reasoning { text: new(), seal: ReasoningSeal::Plain }
            }
            "response.function_call_arguments.delta" => {
                ItemContent::Call { id: new(), name: new(), arguments: new() }
            }
            _ => return out.push(unknown_frame(kind, text)),
        };
        let Some(delta) = frame.delta.as_str() else { return };
        let item = self.item_for(frame, fresh);
        let paragraph = frame.summary_index.get().unwrap_or_default();
        let is_next_paragraph = paragraph > item.paragraph;
        item.paragraph = paragraph;
        match &mut item.content {
            ItemContent::Text(text) => {
                text.push_str(delta);
                push_delta(delta, ProviderEvent::TextDelta, out);
            }
            ItemContent::Reasoning { text, .. } => {
                let gap = if is_next_paragraph { "\n\n" } else { "" };
                let more = format!("{gap}{delta}");
                text.push_str(&more);
                push_delta(&more, ProviderEvent::ReasoningDelta, out);
            }
            ItemContent::Call { arguments, .. } => arguments.push_str(delta),
        }
    }

    /// Returns the open item that a delta belongs to: by index, by id, or else the last of its
    /// kind. Begins a new item if there is none.
    fn item_for(&mut self, frame: &ResponsesFrame<'_>, fresh: ItemContent) -> &mut OpenItem {
        let kind = std::mem::discriminant(&fresh);
        let place = self.place_of(frame, frame.item_id.as_str(), |item| {
            std::mem::discriminant(&item.content) == kind
        });
        let place = place.unwrap_or_else(|| {
            let id = frame.item_id.as_str().map(str::to_owned);
            let index = frame.output_index.get();
            self.open.push(OpenItem { index, id, content: fresh, paragraph: 0 });
            self.open.len() - 1
        });
        &mut self.open[place]
    }

    fn place_of(
        &self,
        frame: &ResponsesFrame<'_>,
        id: Option<&str>,
        fits: impl Fn(&OpenItem) -> bool,
    ) -> Option<usize> {
        let index = frame.output_index.get();
        let is_same = |item: &OpenItem| match (index, id) {
            (Some(_), _) if item.index.is_some() => item.index == index,
            (_, Some(id)) if item.id.is_some() => item.id.as_deref() == Some(id),
            _ => true,
        };
        self.open.iter().rposition(|item| is_same(item) && fits(item))
    }

    fn end_item(
        &mut self,
        frame: &ResponsesFrame<'_>,
        item: &OutputItem<'_>,
        finished: ItemContent,
        out: &mut Vec<ProviderEvent>,
    ) {
        let kind = std::mem::discriminant(&finished);
        let place = self.place_of(frame, item.id.as_str(), |open| {
            std::mem::discriminant(&open.content) == kind
        });
        let index = frame.output_index.get();
        let begun = place.map(|place| self.open.remove(place).content);
        let is_call = matches!(finished, ItemContent::Call { .. });
        if begun.as_ref().is_none_or(|begun| !begun.has_text() && !is_call) {
            show_unseen(&finished, out);
        }
        let content = match begun {
            Some(begun) => begun.replaced_by(finished),
            None => finished,
        };
        match index {
            Some(index) if index > self.next_index => {
                if let Some(earlier) = self.waiting.insert(index, content) {
                    self.report(earlier, out);
                }
            }
            index => {
                self.report(content, out);
                self.next_index = index.map_or(self.next_index, |index| index + 1);
                while let Some(content) = self.waiting.remove(&self.next_index) {
                    self.report(content, out);
                    self.next_index += 1;
                }
            }
        }
    }

    fn begin(&mut self, response: &ResponseObject<'_>, out: &mut Vec<ProviderEvent>) {
        if !self.begun {
            self.begun = true;
            out.push(ProviderEvent::Begin {
                id: response.id.as_str().map(Arc::from),
                model: response.model.as_str().map(Arc::from),
            });
        }
    }

    /// Handles the last frame, which repeats the whole answer. If no item was reported before, they
    /// are taken from it.
    fn finish(&mut self, response: &ResponseObject<'_>, text: &str, out: &mut Vec<ProviderEvent>) {
        self.report_waiting(out);
        for item in std::mem::take(&mut self.open) {
            self.report(item.content, out);
        }
        if self.reported == 0 {
            let items = response.output.0.iter().flatten().filter_map(ItemContent::of);
            for content in items {
                show_unseen(&content, out);
                self.report(content, out);
            }
        }
        if let Some(usage) = response.usage.get() {
            out.push(ProviderEvent::Usage(usage.tokens()));
        }
        let status = response.status.as_str().unwrap_or_default();
        if status == "failed" || response.error.is_some() {
            out.push(ProviderEvent::Error(ProviderError::from_frame(text)));
            return;
        }
        let reason = response.incomplete_details.0.as_ref();
        self.stop = Some(match (status, reason.and_then(|details| details.reason.as_str())) {
            ("completed", _) => StopReason::EndTurn,
            (_, Some("max_output_tokens" | "max_tokens")) => StopReason::MaxTokens,
            (_, Some("content_filter")) => StopReason::Refused,
            (status, reason) => StopReason::Other(reason.unwrap_or(status).into()),
        });
    }

    fn report_waiting(&mut self, out: &mut Vec<ProviderEvent>) {
        for content in std::mem::take(&mut self.waiting).into_values() {
            self.report(content, out);
        }
    }

    fn report(&mut self, content: ItemContent, out: &mut Vec<ProviderEvent>) {
        let part = content.into_part(|| made_call_id(self.place, self.calls));
        self.calls += usize::from(matches!(part, Some(AnswerPart::Call(_))));
        self.reported += usize::from(part.is_some());
        out.extend(part.map(ProviderEvent::Part));
    }
}

/// Emits the text of an item that had no deltas, or the beginning of a call.
fn show_unseen(content: &ItemContent, out: &mut Vec<ProviderEvent>) {
    match content {
        ItemContent::Text(text) => push_delta(text, ProviderEvent::TextDelta, out),
        ItemContent::Reasoning { text, .. } => {
            push_delta(text, ProviderEvent::ReasoningDelta, out);
        }
        ItemContent::Call { name, .. } => {
            out.push(ProviderEvent::CallBegin { name: name.as_str().into() });
        }
    }
}

impl ResponsesUsage {
    fn tokens(self) -> ReportedTokens {
        let details = self.input_tokens_details.get();
        let read = details.and_then(|details| details.cached_tokens.get());
        let written = details.and_then(|details| details.cache_write_tokens.get());
        ReportedTokens::from_inclusive(
            self.input_tokens.get().unwrap_or_default(),
            self.output_tokens.get().unwrap_or_default(),
            read.unwrap_or_default(),
            written.unwrap_or_default(),
        )
    }
}
