# The synchronous form of this file is made by scripts/unasync.py.
"""The client, and what it has: apps, threads, records and files."""

from __future__ import annotations

from types import TracebackType
from typing import Any, AsyncGenerator, AsyncIterator, Callable, Generic, Mapping, Sequence, TypeVar

import httpx

from .. import schema
from .._errors import Conflict
from .._events import RondoEvent
from .._tools import Tools, declared, named
from .._wire import RETRIES, Content, Options, Request, fill, fresh_key, upload, without_none
from ._channel import AsyncThreadFeed, AsyncUserChannel
from ._http import AsyncHttp
from ._run import AsyncRun
from ._stream import follow as follow_feed

Entry = TypeVar("Entry")


class AsyncListing(Generic[Entry]):
    """A list of the API. A loop over it reads page after page; ``page`` gives one of them."""

    def __init__(self, http: AsyncHttp, path: str, query: Mapping[str, Any] | None = None) -> None:
        self._http = http
        self._path = path
        self._query = dict(query or {})

    async def page(self, cursor: str | None = None) -> schema.Page[Entry]:
        """The first page, or the one that the cursor names. It has ``data`` and ``next``."""
        query = self._query if cursor is None else {**self._query, "cursor": cursor}
        return schema.Page(await self._http.json(Request("GET", self._path, query=query)))

    async def __aiter__(self) -> AsyncIterator[Entry]:
        cursor: str | None = None
        while True:
            page = await self.page(cursor)
            for entry in page.data:
                yield entry
            cursor = page.next
            if not cursor:
                return


class AsyncRondo:
    """A client of a Rondo server.

    It holds connections: use it in a ``with`` statement, or call ``close``. One client serves a whole program.

    ``key`` is an API key; ``token`` is a function that gives a JWT and is called before each request; ``user`` is the user
    for whom an acting key speaks. ``retries`` says how often in a row a stream may fail to connect. ``http_client`` is an
    httpx client of your own, with your proxies and certificates, which you close yourself.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8787",
        *,
        key: str | None = None,
        token: Callable[[], Any] | None = None,
        user: str | None = None,
        headers: Mapping[str, str] | None = None,
        retries: int = RETRIES,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        options = Options(base_url, key, token, user, dict(headers or {}), retries)
        self._http = AsyncHttp(options, http_client)

    async def close(self) -> None:
        """Closes all connections. Runs go on."""
        await self._http.close()

    async def __aenter__(self) -> AsyncRondo:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Makes any request of the API. The answer is JSON, or None.

        What changes something is sent with an idempotency key, which is the same in all attempts.
        """
        request = Request(method, path, query, body, headers or {}, idempotency_key)
        return await self._http.json(request)

    def list(self, path: str, **query: Any) -> AsyncListing[Any]:
        """Any list of the API."""
        return AsyncListing(self._http, path, query)

    async def download(self, path: str, query: Mapping[str, Any] | None = None) -> bytes:
        """A file, as the server sends it."""
        return (await self._http.send(Request("GET", path, query))).content

    def app(self, app_id: str) -> AsyncApp:
        """What the user has in one app. No request is made."""
        return AsyncApp(self, app_id)

    def thread(self, thread_id: str) -> AsyncThread:
        """One conversation. No request is made."""
        return AsyncThread(self, thread_id)

    def resume(self, run_id: str, after: int = 0, *, tools: Tools | None = None) -> AsyncRun:
        """Reads a run that there is: from its first event, or after one that was read."""
        return AsyncRun(self._http, self, run_id=run_id, after=after, tools=named(tools))

    async def cancel(self, run_id: str) -> schema.RunView:
        """Ends a run as ``cancelled``."""
        return await self.request("POST", fill("/v1/runs/{run}/cancel", run=run_id))  # type: ignore[no-any-return]

    async def run(self, run_id: str) -> schema.RunView:
        """How a run stands."""
        return await self.request("GET", fill("/v1/runs/{run}", run=run_id))  # type: ignore[no-any-return]

    def events(
        self,
        *,
        follow: Mapping[str, int] | None = None,
        after: int | None = None,
        on_open: Callable[[], Any] | None = None,
    ) -> AsyncUserChannel:
        """The channel of the user: what is new in any of their threads.

        ``follow`` names up to 20 threads whose events come too, each with the number of the last event that was read.
        ``on_open`` is called once, when the channel tells of everything from now on: the time to read lists.
        """
        return AsyncUserChannel(self._http, follow=follow, after=after, on_open=on_open)

    def apps(self) -> AsyncListing[schema.AppView]:
        return AsyncListing(self._http, "/v1/apps")

    def models(self) -> AsyncListing[schema.ModelView]:
        return AsyncListing(self._http, "/v1/models")

    def threads(
        self, *, archived: str | None = None, pinned: bool | None = None, limit: int | None = None
    ) -> AsyncListing[schema.ThreadView]:
        """The threads of all apps, the most recently used first."""
        query = {"archived": archived, "pinned": pinned, "limit": limit}
        return AsyncListing(self._http, "/v1/threads", query)

    async def confirm(self, proposal_id: str) -> schema.ProposalView:
        """Approves a call."""
        path = fill("/v1/proposals/{proposal}/confirm", proposal=proposal_id)
        return await self.request("POST", path)  # type: ignore[no-any-return]

    async def reject(self, proposal_id: str) -> schema.ProposalView:
        """Refuses a call. The model is told."""
        path = fill("/v1/proposals/{proposal}/reject", proposal=proposal_id)
        return await self.request("POST", path)  # type: ignore[no-any-return]

    async def call(self, call_id: str) -> schema.ClientCallView:
        """A call for the client."""
        return await self.request("GET", fill("/v1/calls/{call}", call=call_id))  # type: ignore[no-any-return]

    async def answer(self, call_id: str, result: Any) -> schema.ClientCallView | None:
        """Answers a call that waits for the client. None comes back if it was answered already, or has ended."""
        return await self._answer(call_id, {"result": result})

    async def answer_error(self, call_id: str, error: str) -> schema.ClientCallView | None:
        """Tells the model why a call that waits for the client could not be made."""
        return await self._answer(call_id, {"error": error})

    async def _answer(self, call_id: str, body: Mapping[str, Any]) -> schema.ClientCallView | None:
        try:
            path = fill("/v1/calls/{call}/result", call=call_id)
            return await self.request("POST", path, body=body)  # type: ignore[no-any-return]
        except Conflict:
            return None

    async def answer_patiently(self, call_id: str, body: Mapping[str, Any]) -> object:
        """Answers a call, and tries as often as a stream does: a run waits for the answer while its server restarts."""
        request = Request("POST", fill("/v1/calls/{call}/result", call=call_id), body=body)
        try:
            return await self._http.json(request, tries=self._http.options.retries + 1)
        except Conflict:
            return None

    async def undo(self, action_id: str) -> schema.ActionView:
        """Undoes an action."""
        return await self.request("POST", fill("/v1/actions/{action}/undo", action=action_id))  # type: ignore[no-any-return]

    async def preview_undo(self, action_id: str) -> schema.UndoPreview:
        """What the undo of an action would change."""
        return await self.request("GET", fill("/v1/actions/{action}/undo", action=action_id))  # type: ignore[no-any-return]

    async def undo_run(self, run_id: str) -> schema.UndoReport:
        """Undoes everything that a run has done and that can be undone."""
        return await self.request("POST", fill("/v1/runs/{run}/undo", run=run_id))  # type: ignore[no-any-return]

    async def preview_undo_run(self, run_id: str) -> schema.RunUndoPreview:
        """What the undo of a run would change."""
        return await self.request("GET", fill("/v1/runs/{run}/undo", run=run_id))  # type: ignore[no-any-return]

    async def image(self, image_id: str) -> bytes:
        """The bytes of an image."""
        return await self.download(fill("/v1/images/{image}", image=image_id))

    async def delete_image(self, image_id: str) -> None:
        await self.request("DELETE", fill("/v1/images/{image}", image=image_id))

    async def delete_document(self, document_id: str) -> None:
        await self.request("DELETE", fill("/v1/documents/{document}", document=document_id))

    async def change_memory(self, memory_id: str, **change: Any) -> schema.MemoryView:
        """Changes a memory, such as ``text`` or ``kind``."""
        path = fill("/v1/memories/{memory}", memory=memory_id)
        return await self.request("PATCH", path, body=change)  # type: ignore[no-any-return]

    async def forget(self, memory_id: str, *, purge: bool = False) -> None:
        """Forgets a memory; ``purge`` removes it from the disk for good."""
        path = fill("/v1/memories/{memory}", memory=memory_id)
        await self.request("DELETE", path, query={"purge": True if purge else None})

    async def restore_memory(self, memory_id: str) -> schema.MemoryView:
        """Brings a forgotten memory back."""
        path = fill("/v1/memories/{memory}/restore", memory=memory_id)
        return await self.request("POST", path)  # type: ignore[no-any-return]


class AsyncApp:
    """What one user has in one app."""

    def __init__(self, rondo: AsyncRondo, app_id: str) -> None:
        self.id = app_id
        self._rondo = rondo
        self._http = rondo._http

    def _path(self, rest: str) -> str:
        return fill("/v1/apps/{app}", app=self.id) + rest

    async def run(
        self,
        message: str | None = None,
        *,
        thread_id: str | None = None,
        parent_id: str | None = None,
        regenerate: bool | str | None = None,
        parts: Sequence[schema.NewPart] | None = None,
        document_ids: Sequence[str] | None = None,
        model: str | None = None,
        persona_id: str | None = None,
        settings: Mapping[str, Any] | None = None,
        system_prompt: str | None = None,
        on_busy: schema.OnBusy | None = None,
        answer_schema: schema.AnswerSchema | None = None,
        tools: Tools | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncRun:
        """Sends a message. When this ends, the server has stored it; read the run to see its answer.

        ``tools`` are tools that this client runs: their calls are answered by themselves while the run is read. The
        default of ``idempotency_key`` is a new one, so that a repeated request is never a second message.
        """
        known = named(tools)
        body = without_none(
            message=message,
            threadId=thread_id,
            parentId=parent_id,
            regenerate=regenerate,
            parts=None if parts is None else [*parts],
            documentIds=None if document_ids is None else [*document_ids],
            model=model,
            personaId=persona_id,
            settings=settings,
            systemPrompt=system_prompt,
            onBusy=on_busy,
            answerSchema=answer_schema,
            tools=declared(known) or None,
        )
        request = Request(
            "POST", self._path("/runs"), body=body, idempotency_key=idempotency_key or fresh_key()
        )
        first = await self._http.send(request, is_stream=True)
        return AsyncRun(
            self._http,
            self._rondo,
            run_id=first.headers.get("x-run-id", ""),
            thread_id=first.headers.get("x-thread-id", ""),
            first=first,
            tools=known,
        )

    def threads(
        self, *, archived: str | None = None, pinned: bool | None = None, limit: int | None = None
    ) -> AsyncListing[schema.ThreadView]:
        """The threads of the app, the most recently used first."""
        query = {"archived": archived, "pinned": pinned, "limit": limit}
        return AsyncListing(self._http, self._path("/threads"), query)

    async def create_thread(self, *, title: str | None = None, persona_id: str | None = None) -> schema.ThreadView:
        body = without_none(title=title, personaId=persona_id)
        return await self._rondo.request("POST", self._path("/threads"), body=body)  # type: ignore[no-any-return]

    def search_threads(self, q: str, *, limit: int | None = None) -> AsyncListing[schema.ThreadHit]:
        """Searches the titles and the messages of threads."""
        return AsyncListing(self._http, self._path("/threads/search"), {"q": q, "limit": limit})

    def search(
        self, q: str, *, limit: int | None = None, since: str | None = None, until: str | None = None
    ) -> AsyncListing[schema.FoundMessage]:
        """Searches messages."""
        query = {"q": q, "limit": limit, "from": since, "to": until}
        return AsyncListing(self._http, self._path("/search"), query)

    def memories(self, *, status: str | None = None, limit: int | None = None) -> AsyncListing[schema.MemoryView]:
        return AsyncListing(self._http, self._path("/memories"), {"status": status, "limit": limit})

    async def remember(self, text: str, *, kind: str | None = None) -> schema.MemoryView:
        """Adds a memory."""
        body = without_none(text=text, kind=kind)
        return await self._rondo.request("POST", self._path("/memories"), body=body)  # type: ignore[no-any-return]

    async def search_memories(self, query: str, *, limit: int | None = None) -> schema.Page[schema.MemoryHit]:
        body = without_none(query=query, limit=limit)
        return schema.Page(await self._rondo.request("POST", self._path("/memories/search"), body=body))

    def proposals(self, *, open: bool | None = None, limit: int | None = None) -> AsyncListing[schema.ProposalView]:
        """Calls that need approval."""
        return AsyncListing(self._http, self._path("/proposals"), {"open": open, "limit": limit})

    def calls(self, *, open: bool | None = None, limit: int | None = None) -> AsyncListing[schema.ClientCallView]:
        """Calls for the client."""
        return AsyncListing(self._http, self._path("/calls"), {"open": open, "limit": limit})

    def actions(self, **query: Any) -> AsyncListing[schema.ActionView]:
        """What tools have done, newest first. ``run``, ``thread``, ``tool``, ``status`` and ``limit`` choose."""
        return AsyncListing(self._http, self._path("/actions"), query)

    def images(self, *, limit: int | None = None) -> AsyncListing[schema.ImageView]:
        return AsyncListing(self._http, self._path("/images"), {"limit": limit})

    def documents(self, *, limit: int | None = None) -> AsyncListing[schema.DocumentView]:
        return AsyncListing(self._http, self._path("/documents"), {"limit": limit})

    def knowledge(self) -> AsyncListing[schema.DocumentView]:
        """Documents of the app itself."""
        return AsyncListing(self._http, self._path("/knowledge"))

    async def upload_image(
        self, image: Content, *, name: str | None = None, media_type: str | None = None
    ) -> schema.ImageView:
        """Uploads an image, for a part of a message: bytes, or a path whose name is kept."""
        return await self._upload("/images", image, name, media_type)  # type: ignore[no-any-return]

    async def upload_document(
        self, document: Content, *, name: str | None = None, media_type: str | None = None
    ) -> schema.DocumentView:
        """Uploads a document, to answer from: text, bytes, or a path whose name is kept."""
        return await self._upload("/documents", document, name, media_type)  # type: ignore[no-any-return]

    async def _upload(self, rest: str, content: Content, name: str | None, media_type: str | None) -> Any:
        raw, called, kind = upload(content, name, media_type)
        headers = {"content-type": kind}
        return await self._rondo.request(
            "POST", self._path(rest), query={"name": called}, body=raw, headers=headers
        )

    def records(self, record_type: str) -> AsyncRecords:
        """The records of one type."""
        return AsyncRecords(self._rondo, self.id, record_type)

    @property
    def files(self) -> AsyncFiles:
        """The Markdown files of the user in the app."""
        return AsyncFiles(self._rondo, self.id)


class AsyncThread:
    """One conversation."""

    def __init__(self, rondo: AsyncRondo, thread_id: str) -> None:
        self.id = thread_id
        self._rondo = rondo
        self._http = rondo._http
        self._path = fill("/v1/threads/{thread}", thread=thread_id)

    async def get(self) -> schema.ThreadView:
        return await self._rondo.request("GET", self._path)  # type: ignore[no-any-return]

    def messages(self, *, limit: int | None = None) -> AsyncListing[schema.Message]:
        """The messages of the shown branch, oldest first."""
        return AsyncListing(self._http, self._path + "/messages", {"limit": limit})

    def tree(self, *, limit: int | None = None) -> AsyncListing[schema.Message]:
        """The messages of all branches, oldest first."""
        return AsyncListing(self._http, self._path + "/tree", {"limit": limit})

    async def set_head(self, message_id: str) -> schema.ThreadView:
        """Shows the branch of this message."""
        body = {"messageId": message_id}
        return await self._rondo.request("PUT", self._path + "/head", body=body)  # type: ignore[no-any-return]

    async def change(self, **change: Any) -> schema.ThreadView:
        """Changes ``title``, ``personaId``, ``pinned`` or ``archived``."""
        return await self._rondo.request("PATCH", self._path, body=change)  # type: ignore[no-any-return]

    async def delete(self) -> None:
        await self._rondo.request("DELETE", self._path)

    async def export(self, format: str = "markdown") -> bytes:
        """The whole thread as a file: ``markdown`` or ``json``."""
        return await self._rondo.download(self._path + "/export", {"format": format})

    def events(self, after: int) -> AsyncGenerator[RondoEvent, None]:
        """The events of all runs of the thread and of the thread itself, after one of them. They have no end."""
        return follow_feed(self._http, AsyncThreadFeed(self._http, self.id, after))


class AsyncRecords:
    """The records of one type."""

    def __init__(self, rondo: AsyncRondo, app_id: str, record_type: str) -> None:
        self._rondo = rondo
        self._path = fill("/v1/apps/{app}/records/{type}", app=app_id, type=record_type)

    def _record(self, record_id: str) -> str:
        return self._path + fill("/{record}", record=record_id)

    def list(self, *, q: str | None = None, limit: int | None = None, **fields: str) -> AsyncListing[schema.RecordView]:
        """All records, or those that have these words or these values of fields."""
        wanted = {f"field.{name}": value for name, value in fields.items()}
        return AsyncListing(self._rondo._http, self._path, {"q": q, "limit": limit, **wanted})

    async def get(self, record_id: str) -> schema.RecordView:
        return await self._rondo.request("GET", self._record(record_id))  # type: ignore[no-any-return]

    async def create(self, data: Mapping[str, Any]) -> schema.RecordView:
        return await self._rondo.request("POST", self._path, body=dict(data))  # type: ignore[no-any-return]

    async def replace(self, record_id: str, data: Mapping[str, Any], version: int | None = None) -> schema.RecordView:
        """Replaces all data. With a version, it is refused if the record has another one."""
        return await self._write("PUT", record_id, dict(data), version)  # type: ignore[no-any-return]

    async def change(self, record_id: str, data: Mapping[str, Any], version: int | None = None) -> schema.RecordView:
        """Replaces the fields that ``data`` names; None removes one."""
        return await self._write("PATCH", record_id, dict(data), version)  # type: ignore[no-any-return]

    async def delete(self, record_id: str, version: int | None = None) -> None:
        await self._write("DELETE", record_id, None, version)

    async def _write(self, method: str, record_id: str, body: Any, version: int | None) -> Any:
        return await self._rondo.request(method, self._record(record_id), query={"version": version}, body=body)

    def versions(self, record_id: str) -> AsyncListing[schema.RecordVersionView]:
        return AsyncListing(self._rondo._http, self._record(record_id) + "/versions")


class AsyncFiles:
    """The Markdown files of a user in an app."""

    def __init__(self, rondo: AsyncRondo, app_id: str) -> None:
        self._rondo = rondo
        self._app_path = fill("/v1/apps/{app}", app=app_id)

    def _file(self, path: str) -> str:
        return self._app_path + fill("/files/{path}", path=path)

    def list(self) -> AsyncListing[schema.FileView]:
        return AsyncListing(self._rondo._http, self._app_path + "/files")

    async def get(self, path: str) -> schema.FileView:
        """A file with its content and its version."""
        headers = {"accept": "application/json"}
        return await self._rondo.request("GET", self._file(path), headers=headers)  # type: ignore[no-any-return]

    async def put(self, path: str, content: str, version: int | None = None) -> schema.FileView:
        """Creates or replaces a file. With a version, it is refused if the file has another one."""
        headers = {"content-type": "text/markdown; charset=utf-8"}
        return await self._rondo.request(  # type: ignore[no-any-return]
            "PUT", self._file(path), query={"version": version}, body=content, headers=headers
        )

    async def delete(self, path: str, version: int | None = None) -> None:
        await self._rondo.request("DELETE", self._file(path), query={"version": version})

    def versions(self, path: str) -> AsyncListing[schema.FileVersionView]:
        return AsyncListing(self._rondo._http, self._app_path + fill("/file-versions/{path}", path=path))
