import { mkdirSync } from 'node:fs'
import path from 'node:path'

/** Where a program finds the policy. Its base URL has no secret, because programs pass it on as an argument. */
interface ProgramAccess {
  readonly origin: string
  readonly apiKey: string
  readonly home: string | undefined
  readonly maxOutputTokens: number | undefined
}

/** Variables for Claude Code and Anthropic's SDKs. Source: https://code.claude.com/docs/en/settings */
export function anthropicEnv({
  origin,
  apiKey,
  home,
  maxOutputTokens,
}: ProgramAccess): Record<string, string> {
  return {
    ANTHROPIC_BASE_URL: origin,
    ANTHROPIC_API_KEY: apiKey,
    ANTHROPIC_MODEL: 'policy',
    // The model of titles and other small tasks.
    ANTHROPIC_DEFAULT_HAIKU_MODEL: 'policy',
    // The deadline of the rollout limits a call, and the policy client retries. Milliseconds.
    API_TIMEOUT_MS: '86400000',
    CLAUDE_CODE_MAX_RETRIES: '0',
    // Otherwise it asks again, without a stream, after an answer that broke off: that would be a second sample.
    CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: '1',
    // policyLimits limit how long the policy may be silent. Claude Code takes at most 30 minutes; 0 is no limit.
    CLAUDE_STREAM_IDLE_TIMEOUT_MS: '1800000',
    CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS: '1800000',
    API_FORCE_IDLE_TIMEOUT: '0',
    // Otherwise: a title, look-ups and a version line in each system prompt.
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    CLAUDE_CODE_ATTRIBUTION_HEADER: '0',
    CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS: '1',
    ENABLE_TOOL_SEARCH: 'false',
    DISABLE_AUTO_COMPACT: '1',
    ...(maxOutputTokens === undefined
      ? {}
      : { CLAUDE_CODE_MAX_OUTPUT_TOKENS: String(maxOutputTokens) }),
    ...homeEnv(home, 'CLAUDE_CONFIG_DIR', '.claude'),
  }
}

/** Variables for Codex and OpenAI's SDKs. */
export function openAiEnv({ origin, apiKey, home }: ProgramAccess): Record<string, string> {
  return {
    OPENAI_BASE_URL: `${origin}/v1`,
    OPENAI_API_KEY: apiKey,
    CODEX_API_KEY: apiKey,
    ...homeEnv(home, 'CODEX_HOME', '.codex'),
  }
}

/** Codex exits if its folder does not exist. */
function homeEnv(
  home: string | undefined,
  variable: string,
  folder: string,
): Record<string, string> {
  if (home === undefined) return {}
  const settings = path.join(home, folder)
  mkdirSync(settings, { recursive: true })
  return { HOME: home, [variable]: settings }
}
