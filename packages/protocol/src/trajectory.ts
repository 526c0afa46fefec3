export {
  trajectorySchema,
  validateTrajectory,
  type Trajectory,
  type TrajectoryFinalMetrics,
  type TrajectoryMetrics,
  type TrajectoryContent,
  type TrajectoryStep,
  type TrajectoryToolCall,
} from './trajectory/atif.ts'
export {
  toTrajectories,
  type EndedRollout,
  type PhaseFailure,
  type SampleTrajectory,
} from './trajectory/to-trajectories.ts'
export {
  readTrajectoryReport,
  type ReportedCall,
  type SampleReport,
  type TrajectoryReport,
} from './trajectory/trajectory-report.ts'
export {
  rolloutFolderName,
  writeTrajectories,
  type WriteTrajectoriesOptions,
} from './trajectory/write-trajectories.ts'
export {
  missingOf,
  sampledLogprobs,
  wrongIdsOf,
  toTrainingSequences,
  type AnswerSpan,
  type SampleSequences,
  type SequenceCall,
  type TrainingSequence,
} from './trajectory/training-sequences.ts'
