//! Feeds any text of the socket to the decoder of Mattermost: a post has an id, a sender and a channel, or it is none.

#![no_main]

use angelia_frontends::chat::mattermost::{FrameKind, ServerFrame};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Some(frame) = ServerFrame::parse(text) else { return };
    let (FrameKind::Posted { post, .. } | FrameKind::Edited(post) | FrameKind::Deleted(post)) =
        frame.kind
    else {
        return;
    };
    assert!(!post.id.is_empty());
    assert!(!post.user_id.is_empty());
    assert!(!post.channel_id.is_empty());
});
