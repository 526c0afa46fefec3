export { trajectorySchema, validateTrajectory, type Trajectory } from '@osmosis/protocol/trajectory'
export {
  evaluationSummary,
  type EvaluationSummary,
  measuredPasses,
  type ScoreFigures,
  type SummaryOptions,
} from './analysis/figures/run-metrics.ts'
export {
  type EvalConfig,
  type EvaluationConfig,
  type ExperimentConfig,
  readEvalConfig,
  readTrainingConfig,
  type LocatedConfig,
  type TrainingConfig,
  type ReadConfigOptions,
  findWorkspaceRoot,
} from './config/read-config.ts'
export {
  auditChecks,
  auditVerdicts,
  type AuditCheck,
  type AuditFinding,
  type AuditVerdict,
} from './analysis/records/audit-finding.ts'
export { auditRun, type AuditOptions } from './audit/audit-run.ts'
export { currentVerdicts } from './audit/current-verdicts.ts'
export { type ConfigKind } from './config/config-rules.ts'
export { configSections, platformProblems } from './config/parse-config.ts'
export {
  type PolicyConfig,
  type QueueConfig,
  readWorkspaceConfig,
  type WorkspaceConfig,
} from './config/workspace-config.ts'
export { assertRowsFit, findRowProblems, type RowCheck } from './dataset/dataset-problems.ts'
export { placeOf, type DatasetRow } from './dataset/dataset-row.ts'
export type { ColumnNames } from './dataset/raw-row.ts'
export { readDataset, readRowTexts } from './dataset/read-dataset.ts'
export { type RowSelection, rowValue, selectRows } from './dataset/select-rows.ts'
export { toRunRow } from './dataset/dataset-row.ts'
export { createOutputFolder, defaultOutputRoot } from './store/run-name.ts'
export { assertRunName, generateRunName } from './store/run-name.ts'
export { type FunctionGradingOptions, gradeByFunction } from './regrade/grade-by-function.ts'
export { gradeByGrader, type StoredGrading } from './regrade/grade-by-grader.ts'
export { gradedEvents } from './regrade/rollout-grade.ts'
export {
  regradeRun,
  wholeGroups,
  type RegradeOptions,
  type Regrading,
} from './regrade/regrade-run.ts'
export {
  type GradeRollouts,
  type RolloutGrade,
  type StoredRollout,
} from './regrade/rollout-grade.ts'
export {
  type EvaluatedModel,
  type EvaluationOptions,
  type EvaluationProgress,
  type PolicyHealth,
} from './run/evaluation-options.ts'
export {
  type EvaluationResult,
  type EvaluationSnapshot,
  type RunNames,
} from './run/evaluation-state.ts'
export { type ItemScores } from './run/items/item-record.ts'
export {
  type ItemStatus,
  type EvaluationItem,
  type ItemOutcome,
  type ItemRecord,
  type ItemRunner,
  type ItemRunOptions,
  type ScorableSample,
} from './run/items/item-runner.ts'
export { loopRunner, type LoopRunnerOptions, type LoopSender } from './run/items/loop-runner.ts'
export type { RunCost } from './run/stop-conditions.ts'
export { runEvaluation } from './run/run-evaluation.ts'
export { metricsDocument } from './run/run-snapshots.ts'
export {
  type RolloutSender,
  workflowRunner,
  type WorkflowRunnerOptions,
} from './run/items/workflow-runner.ts'
export { type Scorer, toScorer } from './run/items/scorer.ts'
export {
  archiveRun,
  createRun,
  type CreateRunOptions,
  resumeRun,
  type ResumeRunOptions,
  type RunStoreOptions,
} from './store/write/create-run.ts'
export { openRunFolder, type RunFolder, type Stored } from './store/read/run-folder.ts'
export { type JournalFollower, type JournalPlace, type JournalVisitor } from './store/journal.ts'
export { type ListedRun, listRuns } from './store/list-runs.ts'
export { changedInputs, type InputGroup, type RunGrowth } from './store/manifest-file.ts'
export { type SegmentKind } from './store/run-files.ts'
export { itemKey, type ItemReference } from './analysis/records/item-event.ts'
export { reserveRun, type ReservedRun, takenRunNames } from './store/run-name.ts'
export { AppendFile, openTrainingJournal, type AppendedLine } from './store/write/append-file.ts'
export { lockRun } from './store/run-lock.ts'
export { openRun, type RunReader } from './store/read/run-reader.ts'
export {
  type EndedItem,
  type EvaluationStore,
  type GradedRollout,
  type GradedSample,
  type OpenStoreOptions,
  type RunStore,
  type WireConversation,
} from './store/write/run-store.ts'
export { type Grade } from './store/side-files.ts'
export { type RunSnapshots } from './store/write/snapshot-files.ts'
export {
  isTraining,
  type ListedTraining,
  listTrainings,
  readTrainingJournal,
  trainingJournalFile,
  trainingLock,
  trainingRuns,
  trainingWriter,
} from './store/read/training-folder.ts'
export { WorkerRecord, type WorkerRecordOptions } from './training/training-record.ts'
