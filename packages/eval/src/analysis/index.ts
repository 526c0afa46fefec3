export {
  type ItemEvent,
  type ItemEventStatus,
  type SegmentPlace,
  type ToolUse,
} from './item-event.ts'
export { type RunInputs, type RunManifest, type RunRow } from './run-manifest.ts'
