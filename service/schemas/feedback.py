"""`/v1/feedback`."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from wye.service.schemas.common import Strict


class FeedbackRequest(Strict):
    """A rating of a reply; the last one replaces all earlier ones."""

    request_id: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$", description="Request id of the rated reply.")
    ]
    rating: Annotated[
        Literal["good", "bad", "none"], Field(description="The rating; `none` withdraws it.")
    ]
    passages: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=512)]],
        Field(
            default_factory=list,
            max_length=100,
            description="Ids of passages that answer the question, returned or not; "
            "`wye tune --from-log` learns from them.",
        ),
    ]
    comment: Annotated[str, Field(max_length=4_096)] = ""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"request_id": "0f3a5c", "rating": "bad", "passages": ["neretva"]},
                {"request_id": "0f3a5c", "rating": "good", "comment": "Just what I needed."},
            ]
        }
    )


class FeedbackReply(BaseModel):
    """The rating was written to the request log."""

    status: Literal["recorded"] = "recorded"
    request_id: str
