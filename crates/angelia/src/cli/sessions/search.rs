//! `angelia sessions search WORDS`: finds sessions by their text.

use angelia_core::model::{SearchQuery, SearchTerms};
use angelia_frontends::http::resources::SearchResource;
use clap::Args;
use jiff::Timestamp;

use crate::{
    cli::{
        error::{CommandError, Exit},
        print,
        text_width::fit,
        view::{Style, View, format_ago, short_id},
    },
    records::Records,
};

#[derive(Clone, Debug, Args)]
pub(crate) struct SearchArgs {
    /// The words; a text must contain all of them, in any order and case.
    #[arg(required = true, value_name = "WORDS")]
    words: Vec<String>,

    /// The number of sessions to print, the newest match first.
    #[arg(short = 'n', long, default_value_t = 20)]
    limit: usize,

    /// Print JSON, one object per line.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(
    records: &Records,
    args: &SearchArgs,
    view: &View,
) -> Result<Exit, CommandError> {
    let words = args.words.join(" ");
    let Some(terms) = SearchTerms::parse(&words) else {
        return Err(CommandError::usage("there is no word to search for"));
    };
    let found = records.search(&words, SearchQuery { terms, limit: args.limit }).await?;
    if args.json {
        let mut out = Vec::new();
        for one in &found {
            print::json_line(one, &mut out)?;
        }
        return print::bytes(&out);
    }
    if found.is_empty() {
        print::note("nothing was found");
    }
    print::styled(&render(&found, view, Timestamp::now()))
}

fn render(found: &[SearchResource], view: &View, now: Timestamp) -> String {
    let mut out = String::new();
    for one in found {
        let id = one.session_id.to_string();
        let id = if view.is_terminal { short_id(&id) } else { &id };
        let title = one.title.as_deref().map(|title| format!("  {title}")).unwrap_or_default();
        let head = format!("{}{title}", format_ago(one.time, now));
        out.push_str(&view.paint(Style::Bold, id));
        out.push_str("  ");
        out.push_str(&view.rest(Style::Faint, &head, id.len() + 2));
        out.push('\n');
        let speaker = if one.speaker == "person" { "you: " } else { "" };
        out.push_str("    ");
        out.push_str(&view.paint(Style::Faint, speaker));
        out.push_str(&snippet(one, view, 4 + speaker.len()));
        out.push('\n');
    }
    out
}

/// Returns the snippet with its words highlighted, cut to the rest of the line.
fn snippet(one: &SearchResource, view: &View, used: usize) -> String {
    let shown = fit(&one.snippet, view.width.saturating_sub(used));
    let kept = if shown.len() == one.snippet.len() {
        shown.len()
    } else {
        // Do not count the ellipsis that replaces the rest.
        shown.trim_end_matches('…').len()
    };
    let mut out = String::new();
    let mut at = 0;
    for [start, end] in &one.marks {
        let (start, end) = ((*start).min(kept), (*end).min(kept));
        let (Some(before), Some(word)) = (one.snippet.get(at..start), one.snippet.get(start..end))
        else {
            continue;
        };
        out.push_str(&view.paint(Style::Plain, before));
        out.push_str(&view.paint(Style::Match, word));
        at = end;
    }
    out.push_str(&view.paint(Style::Plain, one.snippet.get(at..kept).unwrap_or_default()));
    if kept < one.snippet.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
