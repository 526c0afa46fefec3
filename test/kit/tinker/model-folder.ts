import { temporaryFolder } from '../temporary-folder.ts'
import { modelTokens } from './token-model.ts'

const template = `
{%- for message in messages -%}
<{{ message.role }}>{{ message.content }}
{%- for call in message.tool_calls or [] -%}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor -%}
<end>
{%- endfor -%}
{%- if add_generation_prompt -%}<assistant>{%- endif -%}
{#- tools are known -#}
`

/** A folder with the tokenizer and chat template of a {@link TokenModel}. */
export function tokenModelFolder(): Promise<string> {
  const files = {
    'tokenizer.json': {
      version: '1.0',
      added_tokens: modelTokens.flatMap((content, id) =>
        content.length === 1
          ? []
          : [
              {
                id,
                content,
                special: true,
                normalized: false,
                lstrip: false,
                rstrip: false,
                single_word: false,
              },
            ],
      ),
      normalizer: { type: 'Replace', pattern: { Regex: '[^a-d]+' }, content: '?' },
      pre_tokenizer: { type: 'Split', pattern: { Regex: '' }, behavior: 'Isolated', invert: false },
      post_processor: null,
      decoder: { type: 'Fuse' },
      model: {
        type: 'WordLevel',
        vocab: Object.fromEntries(modelTokens.map((token, id) => [token, id])),
        unk_token: '?',
      },
    },
    'tokenizer_config.json': { eos_token: '<end>', chat_template: template.trim() },
  }
  return temporaryFolder(
    Object.fromEntries(Object.entries(files).map(([name, file]) => [name, JSON.stringify(file)])),
  )
}
