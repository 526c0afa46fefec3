export {
  OsmosisChatModel,
  type OsmosisChatModelCallOptions,
  type OsmosisChatModelFields,
} from './chat-model.ts'
