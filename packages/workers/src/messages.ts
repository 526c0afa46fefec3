// How samples, errors and failures are sent between processes.
export { portable, sendSamples } from './protocol/portable-values.ts'
export {
  receiveError,
  receiveFailure,
  sendError,
  sendFailure,
  type SentError,
  type SentFailure,
} from './protocol/sent-error.ts'
