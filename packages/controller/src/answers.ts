// Scripted answers as the bytes of the wire, for @osmosis/testing. Not part of the promised API: names
// here may change in any version.
export {
  answerChunks,
  answerCompletion,
  answerContext,
  asksForUsage,
  encodeSse,
  type AnswerContext,
} from './policy/scripted-answer.ts'
