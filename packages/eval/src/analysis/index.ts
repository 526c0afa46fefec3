export {
  type BehaviourChange,
  type CompareOptions,
  compareRuns,
  type Comparison,
  type FacetChange,
  type RowChange,
  type InputChange,
  inputChanges,
} from './comparison/compare-runs.ts'
export { behaviourTexts, changeText } from './comparison/change-text.ts'
export { counterpartOf, type Divergence, divergenceOf } from './comparison/divergence.ts'
export {
  type Distribution,
  facetFigures,
  type FlagShare,
  type GroupFigures,
  type ToolFigures,
  toolFigures,
} from './figures/behaviour-figures.ts'
export { type Finding, findings } from './figures/findings.ts'
export {
  type FigureUnit,
  formatCount,
  formatDollars,
  formatDuration,
  formatQuantity,
  formatReward,
  formatShare,
  points,
  signed,
  unitText,
} from './figures/number-text.ts'
export {
  type DrawEstimate,
  gradientShare,
  meanValue,
  passAt,
  passRate,
} from './figures/reward-figures.ts'
export { type FigureKey, type ReportFigure, reportFigures } from './figures/report-figures.ts'
export {
  type BehaviourStatistics,
  type RunStatistics,
  runStatistics,
} from './figures/run-metrics.ts'
export { numberKeys, numberReader } from './query/query-numbers.ts'
export {
  parseQuery,
  type QueryOptions,
  type QuerySort,
  type RunQuery,
  selectItems,
} from './query/query.ts'
export { isThrown } from './records/error-text.ts'
export {
  type ItemEvent,
  type ItemEventStatus,
  type NamedRollout,
  parseRolloutName,
  rolloutName,
  type RunNote,
  type SegmentPlace,
  type ToolUse,
} from './records/item-event.ts'
export { type RunInputs, type RunManifest, type RunRow } from './records/run-manifest.ts'
export { type Estimate, fewestRows, halfWidth } from './statistics/estimate.ts'
export { type PairedDifference, type Verdict } from './statistics/paired-difference.ts'
export { areEqualRewards, type GroupKind, type RowAttempts } from './table/attempts.ts'
export { appendEvents, findItem, toRunDocument } from './table/document-writer.ts'
export {
  type ItemFlag,
  itemFlags,
  type SuspicionReason,
  suspicionReasons,
} from './table/item-flags.ts'
export {
  type FacetColumn,
  type ItemColumns,
  type RowColumns,
  type RunDocument,
} from './table/run-document.ts'
export { type RowGroup, RunTable, type RunTableOptions } from './table/run-table.ts'
export { shownContent, type ShownContent, type ShownImage } from './trajectory/shown-content.ts'
export {
  type AnsweredToolCall,
  answeredCalls,
  callNotes,
  callsBeside,
  isRewritten,
  isToolError,
  otherConversationsOf,
  runOutputOf,
  type RunOutputText,
  samplingText,
  seamText,
} from './trajectory/trajectory-facts.ts'
export {
  type StepLike,
  type ToolCallLike,
  type ToolResultLike,
  type TrajectoryLike,
  transcriptContains,
} from './trajectory/trajectory-shape.ts'
export { bestRun, type MeasuredVersions, rewardsByVersion } from './training/best-version.ts'
export {
  type LearnedRows,
  lostReward,
  type RowAtStep,
  rowHistories,
  type RowHistory,
  rowsByLearnedStep,
  rowVerdict,
  stepRows,
  type StepRows,
} from './training/row-history.ts'
export {
  type BatchCounts,
  type CheckpointRecord,
  type TrainingOutcome,
  type EvaluationRecord,
  type StartRecord,
  type EqualAttempts,
  type FrequentFailure,
  type StepFigures,
  type StepRecord,
  type StepSettings,
  type TrainingRecord,
  type UpdateFigures,
} from './training/training-records.ts'
export { type MeasuredRollouts, measureRollouts, stepEstimates } from './training/step-figures.ts'
export {
  type AlarmGroup,
  alarmGroups,
  alarmsOf,
  driftText,
  failureAlarm,
} from './training/findings/training-alarms.ts'
export { behaviourChange } from './training/findings/behaviour-change.ts'
export {
  type SeriesKey,
  type TrainingPoint,
  trainingSeries,
  type TrainingSeries,
} from './training/training-series.ts'
export {
  changedSettings,
  settingOptions,
  settingsText,
  trainingSettings,
  type SettingOptions,
  type SettingValues,
  type TrainingSetting,
  type TrainingSettings,
} from './training/training-settings.ts'
