// What it takes to write down the model calls of rollouts that run elsewhere, for the other `@osmosis`
// packages. Not part of the promised API: names here may change in any version.
export { CallLog, type CallRecorder } from './policy/call-log.ts'
export { PassingAnswer, type AnswerListener } from './policy/passing-answer.ts'
export { wireTranscript, type WireTranscript } from './policy/transcript.ts'
