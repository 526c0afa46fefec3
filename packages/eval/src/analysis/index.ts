export { type BehaviourChange } from './behaviour-changes.ts'
export { type Distribution, type SignShare, type ToolFigures } from './behaviour-figures.ts'
export {
  type CompareOptions,
  compareRuns,
  type Comparison,
  type FacetChange,
  type RowChange,
} from './compare-runs.ts'
export { counterpartOf } from './counterpart.ts'
export { gradientChance, passAtK, passHatK } from './draws.ts'
export { type Estimate, halfWidth } from './estimate.ts'
export { type Finding, findings } from './findings.ts'
export {
  type ItemEvent,
  type ItemEventStatus,
  type SegmentPlace,
  type ToolUse,
} from './item-event.ts'
export { type PairedDifference, type Verdict } from './paired-difference.ts'
export { type Divergence, divergenceOf } from './divergence.ts'
export { parseQuery, type QueryOptions, type QuerySort, type RunQuery } from './query.ts'
export { numberKeys } from './query-numbers.ts'
export { type DrawEstimate, gradientShare, meanValue, passAt, passRate } from './reward-figures.ts'
export { type GroupKind, type RowGroup } from './row-group.ts'
export {
  appendEvents,
  findItem,
  type FacetColumn,
  type ItemColumns,
  type RowColumns,
  type RunDocument,
  type RunDocumentOptions,
  toRunDocument,
} from './run-document.ts'
export { type RunInputs, type RunManifest, type RunRow } from './run-manifest.ts'
export { type RunNote } from './run-note.ts'
export { type BehaviourStatistics, type RunStatistics, runStatistics } from './run-statistics.ts'
export { type FigureKey, type ReportFigure, reportFigures } from './run-report.ts'
export { RunTable, type RunTableOptions } from './run-table.ts'
export { isSaid } from './said-text.ts'
export { selectItems } from './select-items.ts'
export { shownContent, type ShownContent, type ShownImage } from './shown-content.ts'
export { type Sign, signs } from './signs.ts'
export { tQuantile } from './student-t.ts'
export {
  type AnsweredToolCall,
  answeredCalls,
  isToolError,
  toSummary,
  trajectoryFacts,
  type TrajectoryFacts,
} from './trajectory-facts.ts'
export {
  frameworkOf,
  rewrittenSteps,
  trainingReadiness,
  type TrainingReadiness,
} from './training-readiness.ts'
export { isThrown } from './thrown-error.ts'
export {
  type StepLike,
  type ToolCallLike,
  type ToolResultLike,
  type TrajectoryLike,
} from './trajectory-shape.ts'
export { type FigureUnit, unitText } from './number-text.ts'
export { type UnearnedReason, unearnedReasons } from './unearned.ts'
export { type NamedRollout, parseRolloutName, rolloutName } from './rollout-name.ts'
