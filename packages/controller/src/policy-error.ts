/** Body of a refused or failed model call, in the form OpenAI clients understand. */
export interface PolicyErrorBody {
  readonly error: { readonly message: string; readonly type: string; readonly code: string }
}

/** Builds a {@link PolicyErrorBody}; `type` follows from the status as at OpenAI. */
export function policyErrorBody(status: number, code: string, message: string): PolicyErrorBody {
  const type = status >= 500 ? 'server_error' : 'invalid_request_error'
  return { error: { message, type, code } }
}
