"""What schemathesis cannot know: which models and sessions there are on the machine of the test."""

import schemathesis


@schemathesis.hook
def map_body(context, body):
    """Every other request names a model that exists: the others find out what is said of unknown ones."""
    if isinstance(body, dict) and isinstance(body.get("model"), str) and len(body["model"]) % 2 == 1:
        body["model"] = "default"
    return body
