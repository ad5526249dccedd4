export { type ChannelOptions, UserChannel } from "./channel.js";
export { type Answer, type Arguments, Listing, Rondo, RondoApp, RondoFiles, RondoRecords, RondoThread, type Route, type RunRequest, type UploadOptions } from "./client.js";
export { RondoError } from "./error.js";
export type { ChannelEvent, EventBodies, FollowedEvent, Notice, NoticeBodies, RondoEvent } from "./events.js";
export { type Conversation, type ShownCall, type ShownMessage, type ShownStep, empty, fold, loaded } from "./fold.js";
export type { RondoOptions } from "./http.js";
export { RondoRun, type RunOutcome } from "./run.js";
export type * from "./schema.js";
export { type CallAnswer, type ClientTool, type ClientTools } from "./tools.js";
