// Answers of a scripted policy as the bytes that go over the wire.
export {
  answerChunks,
  answerCompletion,
  answerContext,
  asksForUsage,
  encodeSse,
  type AnswerContext,
} from './policy/scripted-policy.ts'
