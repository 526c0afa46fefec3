import { errorIn, wordIn } from './error-body.ts'

/** What an endpoint said in the answer with which it refused a request: fields of an `OsmosisError`. */
export interface RefusedCall {
  /** HTTP status of the answer. */
  readonly status?: number | undefined
  /** Its own words, without the key of the request. */
  readonly endpointMessage?: string | undefined
  /** The `code` in its body. */
  readonly endpointCode?: string | undefined
  /** The `type` in its body. */
  readonly endpointType?: string | undefined
}

/** What the body of an answer with this error status says. */
export function refusalOf(status: number, body: string): RefusedCall {
  const { message, code, type } = errorIn(body)
  return {
    status,
    endpointMessage: message,
    endpointCode: wordIn(code),
    endpointType: wordIn(type),
  }
}

/** Codes and types of errors about a key. `no_db_connection` is how LiteLLM without a database refuses a key that it does not know. */
const keyCodes = new Set([
  'auth_error',
  'authentication_error',
  'invalid_api_key',
  'no_db_connection',
])
const keyWords =
  /\bauthentication ?error\b|\bno connected db\b|\b(?:no|invalid|incorrect|missing|wrong) api[ _-]?key\b|\bapi[ _-]?key (?:is )?(?:not valid|invalid|missing|required)\b/i

/**
 * Whether a refusal is about the key of the request. Gateways say it with other statuses as well: LiteLLM answers 400 with
 * "No connected db." and 500 with "Authentication Error, No api key passed in.".
 */
export function isAboutKey(refusal: RefusedCall): boolean {
  const { status, endpointMessage = '', endpointCode = '', endpointType = '' } = refusal
  if (status === 401 || status === 403) return true
  if (status !== 400 && status !== 500) return false
  return keyCodes.has(endpointCode) || keyCodes.has(endpointType) || keyWords.test(endpointMessage)
}

const modelCodes = new Set(['model_not_found', 'model_not_found_error'])

/** Whether a 404 says that the server does not have the model, and not that it does not have the address. */
export function isAboutModel(refusal: RefusedCall): boolean {
  const { status, endpointMessage = '', endpointCode = '', endpointType = '' } = refusal
  if (status !== 404) return false
  if (modelCodes.has(endpointCode) || modelCodes.has(endpointType)) return true
  // Not a model of an address, as in `/v1/models/chat/completions`.
  return /(?<![\w/.-])models?(?![\w/.-]*\/)\b/i.test(endpointMessage)
}
