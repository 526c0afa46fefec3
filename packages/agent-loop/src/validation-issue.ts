/** Something about an agent loop that is wrong (`error`) or looks so (`warning`). */
export interface ValidationIssue {
  readonly severity: 'error' | 'warning'
  /** Stable word, e.g. `GET_TOOLS_EXCEPTION`. */
  readonly code: string
  /** Where, e.g. `tools[0].function.name`. */
  readonly field: string
  readonly message: string
}

/** `[CODE] field: message`. */
export function formatIssue({ code, field, message }: ValidationIssue): string {
  return `[${code}] ${field === '' ? '' : `${field}: `}${message}`
}
