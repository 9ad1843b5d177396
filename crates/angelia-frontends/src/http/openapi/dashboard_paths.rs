//! The paths that the dashboard needs: the page, its login, the stream of all changes, the queues of
//! the bus, the keys and the deliveries.

use super::{
    super::{
        ErrorBody,
        api::{
            BrowserResource, BusAccepted, DeadParams, DeliveryParams, DeliveryResource,
            KeyResource, LoginBody, LoginCodeResource, LoginResource, MessageResource, QueueParams,
        },
        resources::{ChannelResource, ResourceList},
    },
    paths::{Operation, Paths, SuccessBody},
};

pub(super) fn add(paths: &mut Paths) {
    page(paths);
    login(paths);
    feed(paths);
    doors(paths);
    queues(paths);
}

fn add_operation(paths: &mut Paths, operation: Operation) {
    let error = paths.response_schema::<ErrorBody>();
    paths.add(operation.error(error));
}

fn page(paths: &mut Paths) {
    let index =
        Operation::get("/", "The dashboard, a page that reads `/api` with a token of its own.");
    add_operation(paths, index.answers(200, SuccessBody::Html).open());
    let file = Operation::get("/ui/{path}", "A script, a style or an image of the dashboard.");
    add_operation(paths, file.answers(200, SuccessBody::Html).open());
}

fn login(paths: &mut Paths) {
    let code = SuccessBody::Json(paths.response_schema::<LoginCodeResource>());
    let about = "Makes an address that signs a browser in once; only over the Unix socket.";
    add_operation(paths, Operation::post("/api/login/codes", about).answers(201, code));
    let body = paths.request_schema::<LoginBody>();
    let token = SuccessBody::Json(paths.response_schema::<LoginResource>());
    let about = "Turns a code into a token for this browser.";
    let sign_in = Operation::post("/api/login", about).body(body).answers(201, token).open();
    add_operation(paths, sign_in.fails(&[401, 429]));
    let list = SuccessBody::Json(paths.response_schema::<ResourceList<BrowserResource>>());
    let about = "Lists the browsers that are signed in, the one that was used last first.";
    add_operation(paths, Operation::get("/api/login/browsers", about).answers(200, list));
    let revoke = Operation::new("delete", "/api/login/browsers/{browser}", "Signs a browser out.");
    add_operation(paths, revoke.answers(204, SuccessBody::Nothing));
}

fn feed(paths: &mut Paths) {
    let about = "Streams everything that changes; the data of an event is the resource itself. A \
                 `reset` says that the client must read everything again.";
    let events = Operation::get("/api/events", about)
        .header("last-event-id", "The id of the last event the client has seen.")
        .answers(200, SuccessBody::Events);
    add_operation(paths, events);
}

fn doors(paths: &mut Paths) {
    let keys = SuccessBody::Json(paths.response_schema::<ResourceList<KeyResource>>());
    let about = "Lists the keys for the model APIs, and what they have spent today.";
    add_operation(paths, Operation::get("/api/keys", about).answers(200, keys));
    let channels = SuccessBody::Json(paths.response_schema::<ResourceList<ChannelResource>>());
    let about = "Lists the chat platforms, how their connections are, and who asks to be let in.";
    add_operation(paths, Operation::get("/api/channels", about).answers(200, channels));
    let params = paths.inline::<DeliveryParams>();
    let list = SuccessBody::Json(paths.response_schema::<ResourceList<DeliveryResource>>());
    let listed = Operation::get("/api/deliveries", "Lists texts to channels, newest first.");
    add_operation(paths, listed.query(&params, &["limit"]).answers(200, list));
}

fn queues(paths: &mut Paths) {
    let params = paths.inline::<QueueParams>();
    let messages = paths.response_schema::<ResourceList<MessageResource>>();
    let about = "Lists the messages that wait for an endpoint, oldest first.";
    let queued = Operation::get("/api/bus/messages", about)
        .query(&params, &["endpoint", "limit"])
        .answers(200, SuccessBody::Json(messages.clone()));
    add_operation(paths, queued.fails(&[503]));
    let params = paths.inline::<DeadParams>();
    let about = "Lists messages that will not be delivered any more, newest first.";
    let dead = Operation::get("/api/bus/dead", about)
        .query(&params, &["cursor", "limit"])
        .answers(200, SuccessBody::Json(messages));
    add_operation(paths, dead.fails(&[503]));
    let accepted = SuccessBody::Json(paths.response_schema::<BusAccepted>());
    let resend =
        Operation::post("/api/bus/dead/{position}/resend", "Publishes a dead letter again.");
    add_operation(paths, resend.answers(202, accepted).fails(&[429, 503]));
    let discard = Operation::new("delete", "/api/bus/dead/{position}", "Deletes a dead letter.");
    add_operation(paths, discard.answers(204, SuccessBody::Nothing).fails(&[503]));
}
