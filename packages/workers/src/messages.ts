// How samples, errors and failures are sent between processes.
export {
  portable,
  receiveError,
  receiveFailure,
  sendError,
  sendFailure,
  sendSamples,
  type SentError,
  type SentFailure,
} from './protocol/portable-values.ts'
