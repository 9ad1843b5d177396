//! The fake server of Discord, driven by discord.py: the fake is right before our adapter meets it.

use std::time::Duration;

use angelia_testkit::{
    discord_server::{BOT_ID, CHANNEL, DiscordServer, GatewayFault, RestFault, TOKEN},
    python_client::PythonClient,
};
use serde_json::json;

fn start(server: &DiscordServer, more: &[(&str, &str)]) -> PythonClient {
    let variables = [("DISCORD_URL", server.base_url()), ("DISCORD_TOKEN", TOKEN)];
    PythonClient::start("discord", "discord_bot.py", variables.iter().chain(more).copied())
}

#[test]
fn real_discord_py_works_on_the_fake() {
    let server = DiscordServer::start();
    server.set_heartbeat_interval(Duration::from_millis(400));
    server.block(8);
    let client = start(&server, &[]);
    let direct = DiscordServer::direct_channel(7);
    let count = || server.messages(&direct).len();
    client.until("it has begun", || !server.calls("PUT commands").is_empty());
    server.fail_next("POST messages", RestFault::TooMany(0.3, false));
    let hello = server.say(7, "hello");
    client.until("it answers", || count() == 1);
    let sends = server.calls("POST messages");
    assert_eq!(sends[0].status, 429);
    assert_eq!(sends[0].fields["nonce"], sends[1].fields["nonce"], "the same message again");
    server.send_file(7, "notes.txt", b"some notes");
    client.until("it sends the file back", || count() == 2);
    let messages = server.messages(&direct);
    assert_eq!(messages[1].file, Some(("back.txt".to_owned(), b"some notes".to_vec())));
    let asked = messages[0].clone();
    assert_eq!((&*asked.text, asked.reply_to), ("got hello", Some(hello.to_string())));
    server.press(7, &messages[0], "Yes");
    client.until("it decides", || server.messages(&direct)[0].text == "decided");
    assert!(server.messages(&direct)[0].buttons.is_empty());
    server.use_command(7, "status", "now");
    client.until("it answers the command", || server.calls("POST callback").len() == 2);
    server.edit(7, hello, "hello again");
    server.delete(7, hello);
    let thread = server.add_thread(CHANNEL);
    let mention = json!({"content": format!("<@{BOT_ID}> x"), "mentions": [{
        "id": BOT_ID, "username": "fake_bot", "discriminator": "0", "avatar": null, "bot": true,
    }]});
    server.say_in(&thread, 7, &mention);
    client.until("it answers in the thread", || server.messages(&thread).len() == 1);
    server.say(7, "refusals");
    client.until("it has tried everything", || {
        server.messages(&direct).iter().any(|one| one.text == "all refused")
    });
    assert_eq!(server.messages(&DiscordServer::direct_channel(7)).len(), 4, "one of them once");
    let limited = server.calls("POST messages").iter().filter(|one| one.status == 429).count();
    assert_eq!(limited, 1, "it waits as the headers say");

    // It misses nothing over a break, and begins anew where it must.
    server.fail_gateway(GatewayFault::Cut);
    server.say(7, "over the break");
    client.until("it resumes", || server.frames(6).len() == 1);
    client.until("heartbeats come", || server.frames(1).len() > 3);
    server.fail_gateway(GatewayFault::Reconnect);
    server.say(7, "over the reconnect");
    client.until("it resumes again", || server.frames(6).len() == 2);
    server.fail_gateway(GatewayFault::Invalidate(false));
    client.until("it identifies anew", || server.frames(2).len() == 2);
    server.say(7, "end");
    let out = client.finish();
    let wanted = [
        "ready",
        "hello",
        "notes.txt",
        "command",
        "edited hello hello again",
        "deleted hello again",
        "<@123456> x",
        "refusals",
        "over the break",
        "resumed",
        "over the reconnect",
        "resumed",
        "end",
    ];
    let mut from = 0;
    for word in wanted {
        let at = out[from..].find(&format!("'{word}'"));
        from += at.unwrap_or_else(|| panic!("{word} is not in order: {out}"));
    }
    assert_eq!(server.calls("POST callback")[0].fields["data"]["flags"], 64);
    assert_eq!(server.calls("POST typing").len(), 1);
}

#[test]
fn real_discord_py_sees_that_it_may_not_read_messages() {
    let server = DiscordServer::start();
    server.forbid_reading();
    start(&server, &[("DISCORD_REFUSED", "1")]).finish();
}
