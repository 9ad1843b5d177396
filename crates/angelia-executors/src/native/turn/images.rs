//! Handles images that a provider refuses: an image that is too large is shrunk, and a model that
//! accepts none gets a note instead. Both are remembered for the model.

use std::sync::Arc;

use angelia_core::{
    model::{Content, EventKind, Notice, NoticeLevel},
    ports::AgentEvent,
};

use super::{TurnRun, engine_link::EngineLink};
use crate::native::{
    image_care::ImageLimit,
    provider::{ErrorClass, Message, ProviderError},
};

/// The bytes of an image.
type ImageData = Arc<[u8]>;

impl TurnRun<'_> {
    /// Stops sending images to this model.
    pub(super) async fn leave_out_images(
        &mut self,
        error: Option<&ProviderError>,
        link: &EngineLink,
    ) {
        self.state.request.without_images = true;
        if error.is_some_and(|error| error.class == ErrorClass::ImageRefused) {
            let model = &self.route.model;
            let providers = &self.setup.host.providers;
            providers.learn_image_care(&model.provider, &model.issuer.model, |care| {
                care.is_text_only = true;
            });
        }
        let words = error.map(|error| format!(": {}", error.message)).unwrap_or_default();
        let text = format!("the provider refused an image; the model gets a note instead{words}");
        tell(NoticeLevel::Warning, "images_left_out", text, link).await;
    }

    /// Lowers the image limit of this and later requests, because the provider refused an image as
    /// too large.
    pub(super) async fn lower_image_limit(&mut self, link: &EngineLink) {
        let model = &self.route.model;
        let providers = &self.setup.host.providers;
        let care = providers.image_care(&model.provider, &model.issuer.model);
        let Some(limit) = ImageLimit::below(care.limit) else {
            return self.leave_out_images(None, link).await;
        };
        providers.learn_image_care(&model.provider, &model.issuer.model, |care| {
            care.limit = Some(limit);
        });
        let text = "an image is too large for the provider; it is sent again in a smaller size";
        tell(NoticeLevel::Info, "image_shrunk", text.to_owned(), link).await;
    }

    /// Replaces the images that are too large for this model, if its limit is known.
    pub(super) async fn fit_images(&mut self) {
        let model = &self.route.model;
        let care = self.setup.host.providers.image_care(&model.provider, &model.issuer.model);
        let Some(limit) = care.limit.filter(|_| !self.state.request.without_images) else {
            return;
        };
        let aside = self.aside.iter().flat_map(|conversation| &conversation.messages);
        let messages = self.state.log.conversation().messages.iter().chain(aside);
        let images: Vec<(Arc<str>, ImageData)> = messages.flat_map(images_of).collect();
        // Decoding takes a while.
        let fitted = tokio::task::spawn_blocking(move || {
            let large = images.into_iter().filter(|(_, data)| !limit.fits(data));
            large
                .map(|(media_type, data)| {
                    let small = limit.shrink(&media_type, &data);
                    (data, small)
                })
                .collect::<Vec<(ImageData, Content)>>()
        });
        let Ok(fitted) = fitted.await else { return };
        if fitted.is_empty() {
            return;
        }
        let replace = |part: &mut Content| {
            if let Content::Image { data, .. } = part
                && let Some((_, small)) = fitted.iter().find(|(large, _)| Arc::ptr_eq(large, data))
            {
                *part = small.clone();
            }
        };
        self.state.log.change_content(replace);
        for message in self.aside.iter_mut().flat_map(|conversation| &mut conversation.messages) {
            message.contents_mut().for_each(replace);
        }
    }
}

fn images_of(message: &Message) -> impl Iterator<Item = (Arc<str>, ImageData)> {
    message.contents().filter_map(|part| match part {
        Content::Image { media_type, data } => Some((Arc::clone(media_type), Arc::clone(data))),
        Content::Text(_) => None,
    })
}

async fn tell(level: NoticeLevel, code: &str, text: String, link: &EngineLink) {
    let notice = Notice::new(level, code, text);
    link.send(vec![AgentEvent::Event(EventKind::Notice(notice))]).await;
}
